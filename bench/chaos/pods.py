"""Faults in worker pods, at random for a given time: `python bench/chaos/pods.py --minutes 60 --seed 1`. Root.

A job of two or three pods runs in namespaces (`pod_sandbox`); in every attempt one thing goes wrong at a random moment,
also while the Ray cluster is still forming. Invariants:
- every pod ends, within a deadline, with a termination message whose reason is one that this fault may have;
- nothing of it is left, neither a process nor a network namespace in use;
- the next attempt starts from the newest checkpoint, and the last one ends `Completed` with the right sum.
In the operator's place, this script starts a new attempt after a fault of the platform or a preemption.
Prints what happened per fault; ends with 1 and the logs of the first job that violated an invariant.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.chaos.pod_faults import FAULTS, FILLER, PodFault
from bench.chaos.violation import InvariantViolationError
from bench.parts.programs.chaos_sums import right
from cotenant.contract import CheckpointSpec, Contract
from tests.support import pod_sandbox
from tests.support.pod import Pod
from tests.support.pod_sandbox import PodSandbox

PROGRAMS = Path(__file__).resolve().parents[1] / "parts" / "programs"
STEPS = 80
RIGHT = right(STEPS)
END_S = 200.0
"""Longest time from a fault to the end of every pod, also on a busy machine; no timer here is longer than 60 s."""
ATTEMPTS = 12


@dataclass(slots=True)
class Tally:
    """Outcomes per name of a fault."""

    counts: Counter[str] = field(default_factory=Counter)
    ends: dict[str, Counter[str]] = field(default_factory=dict)
    slowest_s: dict[str, float] = field(default_factory=dict)
    jobs: int = 0

    def add(self, fault: str, reasons: list[str], seconds: float) -> None:
        self.counts[fault] += 1
        self.ends.setdefault(fault, Counter()).update([" + ".join(sorted(set(reasons)))])
        self.slowest_s[fault] = max(self.slowest_s.get(fault, 0.0), seconds)


def attempt(job: Contract, fault: PodFault | None, dice: random.Random, tally: Tally, resume: int) -> list[str]:
    """Run one attempt with its fault; the reasons in the termination messages of the pods that can write one."""
    with PodSandbox(job, PROGRAMS, env={"COTENANT_REDUCE_TIMEOUT_S": "45"}) as sandbox:
        pods = sandbox.start_all()
        hit = _inject(sandbox, fault, dice) if fault else None
        begin = time.monotonic()
        silenced = hit if fault and fault.silent else None
        try:
            for pod in pods:
                if pod is not silenced:
                    pod.wait(max(1.0, begin + END_S - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise InvariantViolationError(
                f"a pod has not ended {END_S:.0f} s after the fault\n{sandbox.logs()}"
            ) from None
        seconds = time.monotonic() - begin
        if silenced is not None:
            silenced.kill()
            silenced.wait(20)
        ended = [pod for pod in pods if pod is not silenced]
        reasons = [pod.termination().reason if pod.has_terminated() else "nothing" for pod in ended]
        _check(sandbox, fault, ended, reasons, resume)
        if fault is not None:
            tally.add(fault.name, reasons, seconds)
        return reasons


def _inject(sandbox: PodSandbox, fault: PodFault, dice: random.Random) -> Pod:
    """Inject the fault at a random moment of the training, in a quarter of the cases of the start; the pod hit."""
    candidates = [pod for pod in sandbox.pods if fault.head is None or (pod.index == 0) == fault.head]
    pod = dice.choice(candidates)
    early = dice.random() < 0.25 and not fault.training
    wait_s = dice.uniform(0.2, 4.0)
    end = time.monotonic() + END_S
    while not early and time.monotonic() < end and all(each.process.poll() is None for each in sandbox.pods):
        with contextlib.suppress(subprocess.SubprocessError, ValueError, OSError):
            if sandbox.pods[0].progress().step > 0:
                break
        time.sleep(0.1)
    time.sleep(wait_s)
    while time.monotonic() < end and pod.process.poll() is None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, IndexError):
            fault.inject(sandbox, pod)
            return pod
        time.sleep(0.1)
    return pod


def _check(sandbox: PodSandbox, fault: PodFault | None, pods: list[Pod], reasons: list[str], resume: int) -> None:
    allowed = fault.reasons | {"Completed"} if fault else {"Completed"}
    if not set(reasons) <= allowed:
        raise InvariantViolationError(f"{reasons} after {fault.name if fault else 'nothing'}\n{sandbox.logs()}")
    for pod in pods:
        message = pod.termination().message
        if not message or "Traceback" in message or "\n" in message:
            raise InvariantViolationError(f"this is no sentence: {message!r}\n{sandbox.logs()}")
    if reasons[0] == "Completed" and pods[0].index == 0 and pods[0].termination().results != {"value": RIGHT}:
        raise InvariantViolationError(f"{pods[0].termination().results} instead of {RIGHT}\n{sandbox.logs()}")
    starts = [int(step) for step in re.findall(r"of \d+ starts at (\d+)", sandbox.logs())]
    if starts and starts[0] < resume:
        raise InvariantViolationError(f"started at {starts[0]} although {resume} was saved\n{sandbox.logs()}")
    if left := sandbox.leftover_processes():
        raise InvariantViolationError(f"processes are left: {left}\n{sandbox.logs()}")


def one_job(dice: random.Random, tally: Tally, chosen: list[PodFault]) -> None:
    """Run attempts until the job is done, with a fault in each but the last ones."""
    kind = dice.choice(["own", "torch"])
    pods = dice.choice([[1, 1], [2, 1], [1, 1, 1]])
    least = dice.choice([0, 0, 1])
    with pod_sandbox.directory(mib=1) as shared:
        job = pod_sandbox.contract(
            pods,
            workers_min=least,
            command=("python", "chaos_program.py", kind, str(STEPS)),
            checkpoint=CheckpointSpec(str(shared)),
            grace_s=20,
            rendezvous_timeout_s=90,
            platform={"hangTimeoutSeconds": 20},
        )
        faults = dice.randint(1, 3)
        for number in range(1, ATTEMPTS + 1):
            resume = max((int(path.name[5:]) for path in shared.glob("step-????????????")), default=0)
            fault = dice.choice(chosen) if number <= faults else None
            (shared / FILLER).unlink(missing_ok=True)
            what = f"{kind} job {tally.jobs + 1} of {pods} ranks" + (", elastic" if least else "")
            print(f"{what}, attempt {number}: {fault.name if fault else 'nothing'}", flush=True)
            reasons = attempt(replace(job, attempt=number), fault, dice, tally, resume)
            if "Completed" in reasons:
                break
        else:
            raise InvariantViolationError(f"not done after {ATTEMPTS} attempts")
    tally.jobs += 1


def _write(where: str, seed: int, tally: Tally) -> None:
    """Write the figures after every job, so that an interrupted run keeps them."""
    path = Path(where)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"seed": seed, "jobs": tally.jobs, "ends": tally.ends, "slowest_s": tally.slowest_s}
    path.write_text(json.dumps(document, indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", default="bench/results/chaos.json")
    parser.add_argument("--only", default="", help="faults whose name holds this")
    chosen = parser.parse_args()
    wanted = [fault for fault in FAULTS if chosen.only in fault.name]
    if why := pod_sandbox.missing():
        print(f"bench/chaos/pods.py did not run: {why}")
        return 0
    print(f"seed {chosen.seed}")
    dice, tally, code = random.Random(chosen.seed), Tally(), 0
    end = time.monotonic() + chosen.minutes * 60
    while time.monotonic() < end:
        try:
            one_job(dice, tally, wanted)
        except InvariantViolationError as error:
            print(f"BROKEN: {error}")
            code = 1
            break
        finally:
            _write(chosen.json, chosen.seed, tally)
    print(f"{tally.jobs} jobs done, load {os.getloadavg()[0]:.1f}")
    for name, count in sorted(tally.counts.items()):
        ends = ", ".join(f"{reason} {times}×" for reason, times in tally.ends[name].most_common())
        print(f"{name:<36}{count:>4}   slowest end {tally.slowest_s[name]:>6.1f} s   {ends}")
    return code


if __name__ == "__main__":
    sys.exit(main())
