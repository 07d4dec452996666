"""Error of estimated starts: the first estimate of each job against its start, on workloads to which nothing is tuned.

    python -m bench.estimates                                  # synthetic workloads, some minutes of CPU
    python -m bench.estimates --trace openb_pod_list.csv.gz    # pods of a published trace, with their own run times
    python -m bench.estimates --oracle                         # beside an oracle that knows the distributions

At every so many arrivals (`--every`) all jobs that wait are estimated, as in the operator. A job is judged by its first
estimate, if it waits for at least a minute after it. Few moments are estimated, because eleven plays to the end cost
seconds of CPU under overload.
Columns: jobs that are judged; those that had an estimate; median error in percent of the remaining wait; the same with
its sign (below 0: the estimate was too early); jobs that started by the second estimate (90 % is promised); CPU of a
play, in ms. The factors begin at 1, so the figures include what the first jobs teach. Seeds from 200 on are for judging
only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.parts.oracle import Oracle
from bench.parts.workloads import DECLARATIONS, synthetic, traced
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Admit, Plan
from cotenant.core.outlook.estimates import Estimate, Outlook
from cotenant.core.scheduling.scheduler import place
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.simulator.engine import simulate

LEAST_WAIT_S = 60.0


@dataclass(slots=True)
class Judge:
    """Decides as the operator does, and notes the first estimate that would have been published of each job."""

    every: int
    outlook: Outlook = field(default_factory=Outlook)
    said: dict[JobKey, tuple[float, Estimate | None]] = field(default_factory=dict)
    started: dict[JobKey, float] = field(default_factory=dict)
    arrived: set[JobKey] = field(default_factory=set)
    played: int = 0
    """Arrivals when futures were last played."""
    cpu_s: list[float] = field(default_factory=list)

    def __call__(self, snapshot: Snapshot) -> Plan:
        plan = place(snapshot)
        jobs = {job.key: job for job in snapshot.jobs}
        for action in plan.actions:
            if isinstance(action, Admit) and action.job not in self.started:
                self.started[action.job] = snapshot.now
                said = self.said.get(action.job)
                if said is not None and said[1] is not None:
                    self.outlook.learn(jobs[action.job].queue, said[1], snapshot.now)
        self.arrived.update(jobs)
        self.outlook.observe(snapshot, {})
        fresh = [key for key in plan.verdicts if key not in self.said]
        if fresh and len(self.arrived) >= self.played + self.every:
            self.played = len(self.arrived)
            began = time.process_time()
            while self.outlook.step():
                pass
            known = self.outlook.estimates()
            self.cpu_s.append(time.process_time() - began)
            for key in fresh:
                self.said[key] = snapshot.now, known.get(key)
        return plan

    @property
    def judged(self) -> list[tuple[float, Estimate | None, float]]:
        """(when it was estimated, the estimate, when it started)."""
        return [
            (at, estimate, self.started[key])
            for key, (at, estimate) in self.said.items()
            if key in self.started and self.started[key] - at >= LEAST_WAIT_S
        ]


def row(name: str, judges: Sequence[Judge]) -> str:
    judged = [one for judge in judges for one in judge.judged]
    known = [(one, start, start - at) for at, one, start in judged if one is not None]
    errors = [abs(start - one.p50) / wait for one, start, wait in known]
    bias = [(one.p50 - start) / wait for one, start, wait in known]
    covered = [start <= one.p90 for one, start, _ in known]
    slowest = max((one for judge in judges for one in judge.cpu_s), default=0.0)
    error, signed = median(errors or [9.99]), median(bias or [0.0])
    return (
        f"{name:<28}{len(judged):>6}{percent(len(errors), len(judged))}"
        f"{100 * error:>8.0f} %{100 * signed:>+8.0f} %{percent(sum(covered), len(covered))}"
        f"{1000 * slowest / 11:>9.0f}"
    )


def percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):>8.0f} %"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=160)
    parser.add_argument("--every", type=int, default=16, help="play futures at every so many arrivals")
    parser.add_argument("--seeds", type=int, nargs="*", default=[101, 102, 103])
    parser.add_argument("--load", type=float, help="instead of the one that the seed draws, or 1.05 of a trace")
    parser.add_argument("--declared", nargs="*", default=list(DECLARATIONS), help="honest, noisy, none")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--oracle", action="store_true", help="judge `parts.oracle` too, on the same workloads")
    args = parser.parse_args(words)
    columns = ("jobs", 6), ("known", 10), ("error", 10), ("bias", 10), ("by p90", 10)
    print(f"{'workload':<28}" + "".join(f"{name:>{width}}" for name, width in (*columns, ("ms/play", 9))))
    every: dict[str, list[Judge]] = {}
    for name in args.declared:
        declares = DECLARATIONS[name]
        if args.trace:
            scenarios = {
                args.trace.name[10:-7] or "trace": traced(args.trace, declares, jobs=args.jobs, load=args.load)
            }
        else:
            scenarios = {f"seed {s}": synthetic(s, declares, jobs=args.jobs, load=args.load) for s in args.seeds}
        for where, scenario in scenarios.items():
            of_seed = {name: Outlook()}
            if args.oracle and not args.trace:
                of_seed[f"{name}, oracle"] = Oracle(int(where.removeprefix("seed ")))
            for who, outlook in of_seed.items():
                judge = Judge(args.every, outlook)
                simulate(scenario, judge)
                every.setdefault(who, []).append(judge)
                print(row(f"{where}, {who}", [judge]), flush=True)
    for name, judges in every.items():
        print(row(f"all, {name}", judges), flush=True)


if __name__ == "__main__":
    main()
