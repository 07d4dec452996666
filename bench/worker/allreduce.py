"""All-reduce as ranks of Cotenant do it, against bare torch: `python bench/worker/allreduce.py`. No root, no Ray.

Two bare processes and pairs of ranks (environment and site hook as the launcher makes them) live at the same time and
take turns at every size, so that all see the same machine; the ratio of a size is the median of the ratios of its
turns. Also shown: `cotenant_worker.all_reduce`, over torch and over its own group, in place and not. gloo always; NCCL
where there are two GPUs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cotenant_worker.ranks.environment import base_environment, rank_environment
from cotenant_worker.supervision.conductor import free_ports
from cotenant_worker.supervision.worker_group import WorkerGroup, assign_ranks
from tests.support import pod_sandbox

SIZES = [1 << power for power in range(12, 29, 2)]
BARE = "bare torch"
IN_A_RANK = "torch in a rank"
TORCH, TORCH_COPY = "all_reduce in place", "all_reduce"
OWN, OWN_COPY = "own group in place", "own group"
KINDS = (BARE, IN_A_RANK, TORCH, TORCH_COPY, OWN, OWN_COPY)


def child(kind: str, backend: str) -> None:
    """One of two ranks: a size and repeats in each line on stdin, the milliseconds of one call on stdout."""
    import numpy as np
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if kind not in (OWN, OWN_COPY):
        dist.init_process_group(backend)
    from cotenant_worker import all_reduce

    device = "cuda" if backend == "nccl" else "cpu"
    print("ready", flush=True)
    for line in sys.stdin:
        size, repeats = (int(word) for word in line.split())
        tensor = torch.ones(size // 4, dtype=torch.float32, device=device)
        array = np.ones(size // 4, dtype=np.float32)
        calls: dict[str, Callable[[], Any]] = {
            OWN: partial(all_reduce, array, "max", in_place=True),
            OWN_COPY: partial(all_reduce, array, "max"),
            TORCH: partial(all_reduce, tensor, "max", in_place=True),
            TORCH_COPY: partial(all_reduce, tensor, "max"),
        }
        call = calls.get(kind) or partial(dist.all_reduce, tensor, op=dist.ReduceOp.MAX)
        times = []
        for _ in range(repeats):
            begin = time.perf_counter()
            call()
            if device == "cuda":
                torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) * 1e3)
        print(statistics.median(times), flush=True)


def start(kind: str, backend: str, state: str) -> list[subprocess.Popen[str]]:
    job = pod_sandbox.contract([1, 1], command=("x",))
    ports = free_ports("127.0.0.1", 3)
    world = WorkerGroup(
        0, assign_ranks(job, {0: "127.0.0.1", 1: "127.0.0.1"}), "127.0.0.1", ports[0], ports[1], ports[2]
    )
    found = []
    for member in world.ranks:
        env = {**os.environ, "OMP_NUM_THREADS": "1", "COTENANT_STATE_DIR": state}
        ours = rank_environment(job, world, member)
        if backend == "nccl":
            ours["CUDA_VISIBLE_DEVICES"] = str(member.rank)
        if kind == BARE:
            keep = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES")
            env |= {name: ours[name] for name in keep}
        else:
            env = base_environment(env, job, cpus=1) | ours
        env["PYTHONPATH"] = f"{env.get('PYTHONPATH', '')}:{os.environ.get('PYTHONPATH', '')}"
        command = [sys.executable, __file__, "--child", kind, "--backend", backend]
        pipe = subprocess.PIPE
        found.append(subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True))
    return found


def ask(pair: list[subprocess.Popen[str]], size: int, repeats: int) -> float:
    for process in pair:
        assert process.stdin
        process.stdin.write(f"{size} {repeats}\n")
        process.stdin.flush()
    return max(float(process.stdout.readline()) for process in pair if process.stdout)


def measure(backend: str, rounds: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="cotenant-allreduce-") as state:
        pairs = {kind: start(kind, backend, state) for kind in KINDS}
        try:
            for pair in pairs.values():
                for process in pair:
                    assert process.stdout
                    assert process.stdout.readline().strip() == "ready"
            rows: list[dict[str, Any]] = []
            for size in SIZES:
                repeats = max(1, min(50, (32 << 20) // size))
                times: dict[str, list[float]] = {kind: [] for kind in KINDS}
                for turn in range(rounds):
                    for kind in KINDS if turn % 2 == 0 else KINDS[::-1]:
                        times[kind].append(ask(pairs[kind], size, repeats))
                rows.append({"bytes": size, "ms": {}, "of_bare": {}})
                for kind, found in times.items():
                    rows[-1]["ms"][kind] = statistics.median(found)
                    ratios = (bare / each for bare, each in zip(times[BARE], found, strict=True))
                    rows[-1]["of_bare"][kind] = statistics.median(ratios)
            return rows
        finally:
            for process in (process for pair in pairs.values() for process in pair):
                process.kill()
                process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", default="bench/results/allreduce.json")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("--backend", default="gloo", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        child(chosen.child, chosen.backend)
        return 0
    gpus = len(list(Path("/proc/driver/nvidia/gpus").glob("*")))
    document: dict[str, Any] = {"load": os.getloadavg()}
    for backend in ("gloo", "nccl") if gpus > 1 else ("gloo",):
        rows = document[backend] = measure(backend, chosen.rounds)
        print(f"{backend}, 2 ranks, load {os.getloadavg()[0]:.1f}; milliseconds, and bare time / time")
        print(f"{'bytes':>12}" + "".join(f"{kind:>24}" for kind in KINDS))
        for row in rows:
            cells = "".join(f"{row['ms'][kind]:>15.3f} {row['of_bare'][kind]:>7.2f}×" for kind in KINDS)
            print(f"{row['bytes']:>12,}{cells}")
        for kind in KINDS[1:]:
            ratio = statistics.geometric_mean(row["of_bare"][kind] for row in rows)
            print(f"{kind}: {ratio:.3f} of bare {backend}" + (" (goal 0.95)" if kind in (IN_A_RANK, TORCH) else ""))
    if gpus < 2:
        print("NCCL did not run: it needs two GPUs here")
    path = Path(chosen.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
