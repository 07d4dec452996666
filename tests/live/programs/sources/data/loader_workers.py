"""A DataLoader with workers; the training process saves when it is asked to leave."""

import argparse
import os
import signal
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--out")
parser.add_argument("--bad-batch", type=int, default=-1)


class Squares(torch.utils.data.Dataset):
    def __init__(self, bad_batch: int) -> None:
        self.bad_batch = bad_batch

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if index + 1 == self.bad_batch:
            raise ValueError(f"bad batch {index + 1}")
        time.sleep(0.02)
        return torch.tensor(float(index))


if __name__ == "__main__":
    options = parser.parse_args()
    leaving = []
    signal.signal(signal.SIGTERM, lambda *_: leaving.append(True))
    path = os.path.join(options.out, "state.pt")
    begin, total = torch.load(path) if os.path.exists(path) else (0, torch.zeros(()))
    print("starts at", begin)
    rows = torch.utils.data.Subset(Squares(options.bad_batch), range(begin, options.steps))
    step = begin
    for batch in torch.utils.data.DataLoader(rows, batch_size=1, num_workers=2, persistent_workers=True):
        step += 1
        total += batch.sum()
        print("step", step)
        if leaving:
            torch.save((step, total), path)
            break
