"""Ray Train in one program: it starts a Ray of its own, and two workers that save every step."""

import argparse
import os
import tempfile
import time

import ray
import ray.train
import torch
from ray.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--out")
parser.add_argument("--bad-batch", type=int, default=-1)


def train(config: dict) -> None:
    model = torch.nn.Linear(4, 1)
    begin = 0
    if found := ray.train.get_checkpoint():
        with found.as_directory() as folder:
            begin, weights = torch.load(os.path.join(folder, "model.pt"))
        model.load_state_dict(weights)
    model = prepare_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    leads = ray.train.get_context().get_world_rank() == 0
    if leads:
        print("starts at", begin, "of", ray.train.get_context().get_world_size(), flush=True)
    for step in range(begin + 1, config["steps"] + 1):
        if step == config["bad_batch"]:
            raise ValueError(f"bad batch {step}")
        time.sleep(0.02)
        optimizer.zero_grad()
        model(torch.randn(2, 4)).square().mean().backward()
        optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            torch.save((step, model.module.state_dict()), os.path.join(folder, "model.pt"))
            checkpoint = Checkpoint.from_directory(folder) if leads else None
            ray.train.report({"step": step}, checkpoint=checkpoint)
        if leads:
            print("step", step, flush=True)


if __name__ == "__main__":
    options = parser.parse_args()
    ray.init(num_cpus=2, include_dashboard=False)
    trainer = TorchTrainer(
        train,
        train_loop_config={"steps": options.steps, "bad_batch": options.bad_batch},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=options.out, checkpoint_config=CheckpointConfig(num_to_keep=2)),
    )
    trainer.fit()
