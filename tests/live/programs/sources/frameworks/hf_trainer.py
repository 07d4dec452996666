"""Hugging Face's Trainer on a model made from its configuration; it saves when asked to leave and resumes from that."""

import argparse
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--max_steps", type=int)
parser.add_argument("--output_dir")
parser.add_argument("--bad_batch", type=int, default=-1)
options = parser.parse_args()


class Texts(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int):
        tokens = torch.arange(index, index + 8) % 16
        return {"input_ids": tokens, "labels": tokens}


class Told(TrainerCallback):
    def on_train_begin(self, args, state, control, **_):
        print("starts at", state.global_step)

    def on_step_begin(self, args, state, control, **_):
        if state.global_step + 1 == options.bad_batch:
            raise ValueError(f"bad batch {options.bad_batch}")
        time.sleep(0.02)

    def on_step_end(self, args, state, control, **_):
        print("step", state.global_step)


model = GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1))
arguments = TrainingArguments(
    output_dir=options.output_dir,
    max_steps=options.max_steps,
    per_device_train_batch_size=2,
    save_strategy="no",
    enable_jit_checkpoint=True,
    use_cpu=True,
    report_to=[],
    disable_tqdm=True,
)
trainer = Trainer(model=model, args=arguments, train_dataset=Texts(), callbacks=[Told()])
trainer.train(resume_from_checkpoint=get_last_checkpoint(options.output_dir))
