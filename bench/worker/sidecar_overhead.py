"""What the processes beside the ranks cost a step (launcher, Ray): `python bench/worker/sidecar_overhead.py`. Root.

Two runs of the same job differ by more than this cost, so it is measured within one run. The other processes of the
pods are stopped and continued in turns, and the steps of both kinds of turns are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import sys
import time
from pathlib import Path

from bench import training
from tests.support import pod_sandbox
from tests.support.pod import Pod

TURN_S = 1.2
"""Seconds of a turn: far shorter than every timeout of a silent peer."""
_BLOCK = 20
"""Steps between two times that the program prints."""
_OUTSIDE = ("ip", "sh", "unshare")
"""Processes that hold the pod's namespaces, and wait."""


def sidecars(pod: Pod) -> list[int]:
    """Host pids of all processes of a pod that are no ranks."""
    found = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in pod.processes("")}
    return [pid for pid, name in found.items() if name not in _OUTSIDE and not name.startswith("rank-")]


def signal_all(pids: list[int], number: int) -> None:
    """Signal those that still live: on a fast machine the program may be done before the last turn."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def turns(sandbox: pod_sandbox.PodSandbox, count: int) -> list[tuple[bool, float, float]]:
    """(all processes run, begin, end) of each turn; times in Unix seconds."""
    others = [pid for pod in sandbox.pods for pid in sidecars(pod)]
    found = []
    for turn in range(count):
        run = turn % 2 == 0
        signal_all(others, signal.SIGCONT if run else signal.SIGSTOP)
        begin = time.time()
        time.sleep(TURN_S)
        found.append((run, begin, time.time()))
    signal_all(others, signal.SIGCONT)
    return found


def measure(pods: list[int], count: int) -> dict[bool, list[float]]:
    """Milliseconds of a step in each turn, with the other processes (True) and without."""
    job = pod_sandbox.contract(pods, command=("torchrun", training.PROGRAM, str(count * 12)))
    with pod_sandbox.PodSandbox(job, training.PROGRAMS, env={"OMP_NUM_THREADS": "1"}) as sandbox:
        head = sandbox.start_all()[0]
        pod_sandbox.until(lambda: "FIRST" in head.log(), 240, "training")
        time.sleep(training.SETTLED_S)
        taken = turns(sandbox, count)
        steps = json.loads(pod_sandbox.until(lambda: re.search(r"STEPS (\[.*\])", head.log()), 600, "the end")[1])
    found: dict[bool, list[float]] = {True: [], False: []}
    for run, begin, end in taken:
        inside = [ms for at, ms in steps if begin + ms * _BLOCK / 1e3 <= at <= end]
        if inside:
            found[run].append(statistics.mean(inside))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=60)
    chosen = parser.parse_args()
    if why := pod_sandbox.missing():
        print(f"bench/worker/sidecar_overhead.py did not run: {why}")
        return 0
    for name, pods in training.PODS.items():
        found = measure(pods, chosen.turns)
        if not all(found.values()):
            print(f"{name:<22} no block of {_BLOCK} steps fell into one turn: a quieter machine or more --turns")
            continue
        ours, bare = (statistics.median(found[run]) for run in (True, False))
        counted = f"{ours / bare - 1:+.1%}, {len(found[True])} and {len(found[False])} turns"
        print(f"{name:<22}{bare:>8.2f} ms a step without others, {ours:.2f} with them: {counted}", flush=True)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
