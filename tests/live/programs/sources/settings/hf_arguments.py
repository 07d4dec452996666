"""HfArgumentParser: the types of a dataclass's fields become the types of the options."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import HfArgumentParser


@dataclass
class Arguments:
    output_dir: str = field(metadata={"help": "where to save"})
    max_steps: int = field(default=10)
    learning_rate: float = field(default=0.1)
    bad_batch: int = field(default=-1)
    verbose: bool = field(default=False)


(arguments,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
file = Path(arguments.output_dir) / "weights.pt"
state = torch.load(file) if file.exists() else {"step": 0, "weights": torch.zeros(2)}
print("starts at", state["step"])
for step in range(state["step"] + 1, arguments.max_steps + 1):
    if step == arguments.bad_batch:
        raise ValueError(f"bad batch {step}")
    time.sleep(0.02)
    state = {"step": step, "weights": state["weights"] + arguments.learning_rate}
    torch.save(state, file.with_suffix(".new"))
    file.with_suffix(".new").replace(file)
    if arguments.verbose:
        print("step", step)
