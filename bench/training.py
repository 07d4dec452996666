"""A training step under Cotenant against torchrun, on the same machine: `python bench/training.py`. Root, for the pods.

Alternating runs of the same unchanged program in one pod with two ranks, and in two pods with one: torchrun, Cotenant.
Prints step time, launch → first step with its phases, and how long training stands still after a SIGKILL of a rank: in
the first moments of a run, and once it has run for a while.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from tests.support import pod_sandbox

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "parts" / "programs"
PROGRAM = "training_program.py"
TEST_PROGRAMS = HERE.parent / "tests" / "worker" / "programs"
PODS = {"one pod, two ranks": [2], "two pods": [1, 1]}
SETTLED_S = 10
"""Seconds of training after which the fork server has imported what a first step imports."""
_START_S = 240


def read(log: str, launched: float) -> dict[str, Any]:
    reduced, stepped = re.search(r"REDUCED ([\d.]+)", log), re.search(r"FIRST ([\d.]+)", log)
    steps = re.search(r"STEPS (\[.*\])", log)
    if not reduced or not stepped or not steps:
        raise RuntimeError(f"the program did not finish:\n{log[-2000:]}")
    return {
        "all_reduce_s": float(reduced[1]) - launched,
        "first_step_s": float(stepped[1]) - launched,
        "ms": [ms for _, ms in json.loads(steps[1])],
    }


def under_torchrun(pods: list[int], turns: int) -> dict[str, Any]:
    """Run in such pods as Cotenant's ranks run in, with their network and their part of the CPUs."""
    torchrun = f"cd {PROGRAMS} && exec {sys.executable} -m torch.distributed.run"
    torchrun += f" --nnodes={len(pods)} --nproc-per-node={pods[0]} --master-addr=pod-0 --master-port=29500"
    with pod_sandbox.PodSandbox(pod_sandbox.contract(pods), PROGRAMS, env={"OMP_NUM_THREADS": "1"}) as sandbox:
        launched = time.time()
        each = [f"{torchrun} --node-rank={rank} {PROGRAM} {turns}" for rank in range(len(pods))]
        started = [sandbox.start(rank, shell=shell) for rank, shell in enumerate(each)]
        for pod in started:
            pod.wait(_START_S)
        return read(started[0].log(), launched)


def under_cotenant(pods: list[int], turns: int) -> dict[str, Any]:
    job = pod_sandbox.contract(pods, command=("torchrun", PROGRAM, str(turns)))
    with pod_sandbox.PodSandbox(job, PROGRAMS, env={"OMP_NUM_THREADS": "1"}) as sandbox:
        launched = time.time()
        started = sandbox.start_all()
        phases: dict[str, float] = {}

        def finished() -> bool:
            nonlocal phases
            if started[0].process.poll() is not None:
                return True
            # Only once: each request costs a process, beside what is timed.
            if not phases and "FIRST" in started[0].log():
                phases = phases_of(started[0].get("/metrics"))
            return False

        try:
            pod_sandbox.until(finished, _START_S, "the end of the run")
        except TimeoutError:
            raise RuntimeError(sandbox.logs()) from None
        return {**read(started[0].log(), launched), "phases": phases}


def settled(runs: list[dict[str, Any]]) -> float:
    """Milliseconds of a step: median over the later half of all runs."""
    steps: list[float] = [ms for run in runs for ms in run["ms"][len(run["ms"]) // 2 :]]
    return statistics.median(steps)


def at_first(runs: list[dict[str, Any]]) -> float:
    """Milliseconds of a step: median over the first tenth of all runs, while the fork server may still import."""
    steps: list[float] = [ms for run in runs for ms in run["ms"][: max(1, len(run["ms"]) // 10)]]
    return statistics.median(steps)


def phases_of(page: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r'phase="([^"]+)"\} ([\d.e+-]+)', page)}


def recovery(after_s: float) -> float:
    """Seconds from a SIGKILL of rank 1, after so many of training, to the first step of the other pod's rank."""
    job = pod_sandbox.contract([1, 1], command=("python", "torch_steps.py"))
    with pod_sandbox.PodSandbox(job, TEST_PROGRAMS) as sandbox:
        head, other = sandbox.start_all()
        pod_sandbox.until(lambda: "step 20" in head.log(), _START_S, "training")
        time.sleep(after_s)
        killed = time.time()
        os.kill(other.rank_process(1), signal.SIGKILL)
        again = pod_sandbox.until(lambda: re.search(r"again ([\d.]+)", head.log()), 60, "training again")
    return float(again[1]) - killed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=60, help="blocks of 20 steps in a run")
    parser.add_argument("--json", default="bench/results/training.json")
    chosen = parser.parse_args()
    if why := pod_sandbox.missing():
        print(f"bench/training.py did not run: {why}")
        return 0
    runs: dict[str, list[dict[str, Any]]] = {f"{name}, {how}": [] for name in PODS for how in ("torchrun", "Cotenant")}
    for _ in range(chosen.rounds):
        for name, pods in PODS.items():
            runs[f"{name}, torchrun"].append(under_torchrun(pods, chosen.turns))
            runs[f"{name}, Cotenant"].append(under_cotenant(pods, chosen.turns))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs, {chosen.rounds} alternating rounds")
    print(f"{'':<30}{'ms a step':>10}{'to torchrun':>13}{'at first':>10}{'first all-reduce':>18}{'first step':>12}")
    for name, found in runs.items():
        step, bare = settled(found), settled(runs[f"{name.rpartition(',')[0]}, torchrun"])
        reduced, stepped = (statistics.median(run[key] for run in found) for key in ("all_reduce_s", "first_step_s"))
        starts = f"{reduced:>16.1f} s{stepped:>10.1f} s"
        print(f"{name:<30}{step:>10.2f}{step / bare - 1:>+13.1%}{at_first(found):>10.2f}{starts}")
    fastest = min(runs["two pods, Cotenant"], key=lambda run: run["first_step_s"])
    print("two pods, seconds after pod 0's launcher began:")
    for phase, seconds in sorted(fastest["phases"].items(), key=lambda item: item[1]):
        print(f"  {seconds:>7.2f}  {phase}")
    back = {after_s: [recovery(after_s) for _ in range(chosen.rounds)] for after_s in (0, SETTLED_S)}
    for after_s, found_s in back.items():
        times = ", ".join(f"{each:.2f}" for each in found_s)
        print(f"a rank that is killed after {after_s} s of training trains again after {times} s")
    path = Path(chosen.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"load": os.getloadavg(), "runs": runs, "recovery_s": back}
    path.write_text(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
