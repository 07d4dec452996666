"""Error of estimated starts: what was first said to each job, against when it started, on workloads nobody tuned to.

    python -m bench.estimates                                  # synthetic workloads, some minutes
    python -m bench.estimates --trace openb_pod_list.csv.gz    # pods of a published trace, with their own run times

Columns: jobs judged; how many of those that waited had an estimate; median error as a part of the wait; part of the
jobs that started by the second estimate (nine of ten are promised); the same for the estimate of one cycle alone.
A job is judged if it waits for a minute or more. The factors begin at 1: what the first jobs teach is in the figures.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from cotenant.core import schedule
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Admit, Plan
from cotenant.core.outlook.estimates import Estimate, Outlook
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.simulator.engine import simulate
from cotenant.simulator.scenario import Arrival, Scenario
from cotenant.testing import make_job, make_node, make_queue

LEAST_WAIT_S = 60.0
Declares = Callable[[random.Random, float], int | None]
"""(dice, true run time) → what is declared."""
DECLARATIONS: dict[str, Declares] = {
    "honest": lambda _, true: max(1, int(true)),
    "noisy": lambda dice, true: max(1, int(true * dice.lognormvariate(0.3, 0.6))),
    "none": lambda _, true: None,
}


@dataclass(slots=True)
class Judge:
    """Decides as the operator does, and notes what would have been published when a job first waits."""

    every: int
    outlook: Outlook = field(default_factory=Outlook)
    said: dict[JobKey, tuple[float, Estimate | None, float | None]] = field(default_factory=dict)
    started: dict[JobKey, float] = field(default_factory=dict)
    seen: set[JobKey] = field(default_factory=set)
    cpu_s: list[float] = field(default_factory=list)

    def __call__(self, snapshot: Snapshot) -> Plan:
        plan = schedule(snapshot)
        jobs = {job.key: job for job in snapshot.jobs}
        for action in plan.actions:
            if isinstance(action, Admit) and action.job not in self.started:
                self.started[action.job] = snapshot.now
                said = self.said.get(action.job)
                if said is not None and said[1] is not None:
                    self.outlook.learn(jobs[action.job].queue, said[1], snapshot.now)
        fresh = [key for key in plan.verdicts if key not in self.seen]
        self.seen.update(jobs)
        chosen = [key for key in fresh if len(self.seen) % self.every == 0]
        if chosen:
            began = time.process_time()
            self.outlook.observe(snapshot, {})
            while self.outlook.step():
                pass
            known = self.outlook.estimates()
            self.cpu_s.append(time.process_time() - began)
            for key in chosen:
                self.said[key] = snapshot.now, known.get(key), plan.verdicts[key].estimated_start_at
        return plan

    def row(self, name: str) -> str:
        judged = [
            (at, estimate, before, self.started[key])
            for key, (at, estimate, before) in self.said.items()
            if key in self.started and self.started[key] - at >= LEAST_WAIT_S
        ]
        errors = [abs(start - one.p50) / (start - at) for at, one, _, start in judged if one is not None]
        covered = [start <= one.p90 for _, one, _, start in judged if one is not None]
        before = [abs(start - one) / (start - at) for at, _, one, start in judged if one is not None]
        return (
            f"{name:<28}{len(judged):>6}{percent(len(errors), len(judged))}"
            f"{100 * median(errors or [9.99]):>8.0f} %{percent(sum(covered), len(covered))}"
            f"{100 * median(before or [9.99]):>10.0f} %{percent(len(before), len(judged))}"
            f"{1000 * max(self.cpu_s, default=0.0) / 11:>9.0f}"
        )


def percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):>8.0f} %"


def synthetic(seed: int, declares: Declares, *, jobs: int, alone: bool) -> Scenario:
    """Poisson arrivals, run times log-normal by template, sizes as in published clusters; load 1.05.

    `alone`: one queue; otherwise two, with guarantees, which take back what they lent.
    """
    dice = random.Random(seed)
    nodes = tuple(make_node(f"n{index}", gpus=8) for index in range(2))
    shared = (make_queue("red", guaranteed=10), make_queue("blue", guaranteed=6))
    queues = (make_queue("red", guaranteed=16),) if alone else shared
    templates = [(dice.choice((1, 1, 1, 2, 4, 8)), dice.lognormvariate(7.0, 1.0)) for _ in range(12)]
    mean = sum(gpus * seconds for gpus, seconds in templates) / len(templates)
    at, arrivals = 0.0, []
    for number in range(jobs):
        at += dice.expovariate(1.05 * 16 / mean)
        which = dice.randrange(len(templates))
        gpus, seconds = templates[which]
        true = max(30.0, seconds * dice.lognormvariate(0.0, 0.3))
        queue = "red" if dice.random() < 0.6 or alone else "blue"
        job = make_job(f"t{which}-{number}", queue=queue, gpus=gpus, at=at, expected_runtime_s=declares(dice, true))
        arrivals.append(Arrival(at, job, true))
    return Scenario(0.0, nodes, queues, tuple(arrivals))


def traced(path: Path, declares: Declares, *, jobs: int) -> Scenario:
    """GPU pods of an openb list with a known end, on as many nodes as keep them waiting now and then."""
    dice = random.Random(7)
    rows = [row for row in _rows(path) if int(row["num_gpu"]) > 0 and row["deletion_time"]]
    rows = [row for row in rows if float(row["deletion_time"]) - float(row["creation_time"]) >= LEAST_WAIT_S][-jobs:]
    arrivals: list[Arrival] = []
    for number, row in enumerate(sorted(rows, key=lambda row: float(row["creation_time"]))):
        at = float(row["creation_time"])
        true = float(row["deletion_time"]) - at
        gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"])
        share = milli if gpus == 1 and milli < 1000 else None
        arrivals.append(Arrival(at, _pod(f"pod-{number}", gpus, share, at, declares(dice, true)), true))
    start, end = arrivals[0].at, arrivals[-1].at
    held = sum(one.train_s * one.job.gpu.count * (one.job.gpu.memory_milli or 1000) / 1000 for one in arrivals)
    nodes = max(1, round(held / max(1.0, end - start) / 8 / 1.05))
    queues = (make_queue("red", guaranteed=nodes * 8),)
    return Scenario(start, tuple(make_node(f"n{n}", gpus=8) for n in range(nodes)), queues, tuple(arrivals))


def _pod(name: str, gpus: int, share: int | None, at: float, declared: int | None) -> Job:
    return make_job(name, gpus=gpus, milli=share, at=at, expected_runtime_s=declared)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield from csv.DictReader(file)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--every", type=int, default=3, help="estimate at every so many arrivals")
    parser.add_argument("--seeds", type=int, nargs="*", default=[101, 102, 103])
    parser.add_argument("--alone", action="store_true", help="one queue instead of two")
    parser.add_argument("--trace", type=Path)
    args = parser.parse_args(words)
    print(
        f"{'workload':<28}{'jobs':>6}{'known':>10}{'error':>10}{'by p90':>10}{'before':>12}{'known':>10}{'ms/play':>9}"
    )
    for name, declares in DECLARATIONS.items():
        if args.trace:
            scenarios = {args.trace.name[10:-7] or "trace": traced(args.trace, declares, jobs=args.jobs)}
        else:
            scenarios = {f"seed {s}": synthetic(s, declares, jobs=args.jobs, alone=args.alone) for s in args.seeds}
        for where, scenario in scenarios.items():
            judge = Judge(args.every)
            simulate(scenario, judge)
            print(judge.row(f"{where}, {name}"), flush=True)


if __name__ == "__main__":
    main()
