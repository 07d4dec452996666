"""Samples out of tar files by webdataset, an iterable dataset; the place in the stream is saved beside the sum."""

import argparse
import io
import os
import tarfile
import tempfile
import time

import torch
import webdataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--out")
parser.add_argument("--bad-batch", type=int, default=-1)
options = parser.parse_args()


def shard(folder: str) -> str:
    name = os.path.join(folder, "samples-000.tar")
    with tarfile.open(name, "w") as tar:
        for index in range(64):
            text = str(index).encode()
            member = tarfile.TarInfo(f"{index:04d}.cls")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    return name


path = os.path.join(options.out, "state.pt")
begin, total = torch.load(path) if os.path.exists(path) else (0, 0)
print("starts at", begin)
with tempfile.TemporaryDirectory() as folder:
    stream = webdataset.WebDataset(shard(folder), shardshuffle=False).decode().to_tuple("cls").repeat()
    for step, (value,) in enumerate(stream, start=1):
        if step <= begin:
            continue
        if step > options.steps:
            break
        if step == options.bad_batch:
            raise ValueError(f"bad batch {step}")
        time.sleep(0.02)
        total += value
        torch.save((step, total), path + ".new")
        os.replace(path + ".new", path)
        print("step", step)
