"""Settings by Hydra, which reads its configuration beside the program; the program changes its folder as Hydra asks."""

import os
import time
from pathlib import Path

import hydra
import torch
from omegaconf import DictConfig


@hydra.main(version_base=None, config_path="conf", config_name="train")
def main(settings: DictConfig) -> None:
    assert os.path.exists(__file__), "the program has left its own file behind"
    checkpoint = Path(settings.out) / "last.pt"
    weights = torch.zeros(3, requires_grad=True)
    begin = 0
    if checkpoint.exists():
        begin, values = torch.load(checkpoint)
        weights.data.copy_(values)
    print("starts at", begin)
    optimizer = torch.optim.Adam([weights], lr=settings.optimizer.lr)
    for step in range(begin + 1, settings.steps + 1):
        if step == settings.bad_batch:
            raise ValueError(f"bad batch {step}")
        time.sleep(0.02)
        optimizer.zero_grad()
        (weights - 1).square().sum().backward()
        optimizer.step()
        torch.save((step, weights.detach()), checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").replace(checkpoint)
        print("step", step)


if __name__ == "__main__":
    main()
