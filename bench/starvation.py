"""How long a gang waits in a stream of small jobs, with and without collecting, and what collecting costs.

    python -m bench.starvation                  # every stream below, some minutes
    python -m bench.starvation --json out.json  # the same as values

One queue to which all GPUs are guaranteed; Poisson arrivals of one-GPU jobs, and a gang of half the GPUs every
`--every` hours. Each stream is played without and with collecting from the same dice, so columns are compared within
one run. Waits of gangs, median and longest, are in hours ("never": at the end some wait still). "Bound kept":
of gangs that had started, those that did so by the first `startsBy` that they were told. "Busy": GPU time of jobs over
what there was, from the first gang on, and what of it collecting leaves; evictions for each job.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median

from cotenant.core import Policy, schedule
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Admit, Plan
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.simulator.engine import Pace, simulate
from cotenant.simulator.scenario import Arrival, Scenario
from cotenant.testing import make_job, make_node, make_queue

HOUR = 3_600.0
DECLARES = ("nothing", "expectedRuntime", "maxRuntime")


@dataclass(frozen=True, slots=True)
class Stream:
    load: float
    mean_s: float
    declares: str
    hours: float
    gpus: int = 32


@dataclass(slots=True)
class Watch:
    """Decides, and notes starts and first bounds of gangs."""

    policy: Policy
    bounds: dict[JobKey, float] = field(default_factory=dict)
    started: dict[JobKey, float] = field(default_factory=dict)

    def __call__(self, snapshot: Snapshot) -> Plan:
        plan = schedule(snapshot, self.policy)
        for action in plan.actions:
            if isinstance(action, Admit):
                self.started.setdefault(action.job, snapshot.now)
        for key, verdict in plan.verdicts.items():
            if "gang" in key and verdict.starts_by is not None:
                self.bounds.setdefault(key, verdict.starts_by)
        return plan


@dataclass(frozen=True, slots=True)
class Row:
    stream: Stream
    collects: bool
    gangs: int
    started: int
    median_wait_h: float | None
    longest_wait_h: float | None
    bounds_kept: int
    bounds_told: int
    busy: float
    evictions_per_job: float


def scenario(stream: Stream, every_h: float, seed: int) -> Scenario:
    """Small jobs run for 0.7 to 1.3 times the mean; gangs as long as they do."""
    dice = random.Random(seed)
    nodes = tuple(make_node(f"n{index}", gpus=8) for index in range(stream.gpus // 8))
    gang, at = stream.gpus // 2, 0.0
    arrivals: list[Arrival] = []
    gang_load = gang * stream.mean_s / (every_h * HOUR * stream.gpus)
    rate = max(0.05, stream.load - gang_load) * stream.gpus / stream.mean_s
    while (at := at + dice.expovariate(rate)) < stream.hours * HOUR:
        true = stream.mean_s * dice.uniform(0.7, 1.3)
        arrivals.append(_arrival(f"small-{len(arrivals)}", 1, at, true, stream))
    for number in range(int(stream.hours / every_h)):
        at = (number + 0.5) * every_h * HOUR
        arrivals.append(_arrival(f"gang-{number}", gang, at, stream.mean_s, stream))
    return Scenario(0.0, nodes, (make_queue("red", guaranteed=stream.gpus),), tuple(arrivals))


def _arrival(name: str, workers: int, at: float, true: float, stream: Stream) -> Arrival:
    expected = round(true) if stream.declares == "expectedRuntime" else None
    most = round(true * 1.2) if stream.declares == "maxRuntime" else None
    job = make_job(name, workers=workers, at=at, expected_runtime_s=expected, max_runtime_s=most)
    return Arrival(at, job, true)


def play(stream: Stream, *, every_h: float, seed: int, collects: bool) -> Row:
    policy = Policy(forecasts=0, advice=0)
    watch = Watch(policy if collects else replace(policy, collect_after_s=0))
    world = scenario(stream, every_h, seed)
    history = simulate(world, partial(watch), pace=Pace(tick_s=600.0))
    end = stream.hours * HOUR
    gangs = {one.job.key: one.at for one in world.arrivals if "gang" in one.job.key and one.at < end - 8 * HOUR}
    starts = {key: watch.started[key] for key in gangs if watch.started.get(key, end) < end}
    waits = sorted(starts[key] - gangs[key] for key in starts)
    first = min(gangs.values(), default=0.0)
    worked = 0.0
    for key, run in history.runs.items():
        begun = watch.started.get(key)
        if begun is not None:
            stop = min(end, run.end if run.end is not None else end)
            worked += max(0.0, stop - max(first, begun)) * run.arrival.job.workers_min
    evicted = sum(" in favour of " in line for _, line in history.log)
    told = [key for key in starts if key in watch.bounds]
    return Row(
        stream=stream,
        collects=collects,
        gangs=len(gangs),
        started=len(starts),
        median_wait_h=median(waits) / HOUR if waits else None,
        longest_wait_h=waits[-1] / HOUR if len(waits) == len(gangs) and waits else None,
        bounds_kept=sum(starts[key] <= watch.bounds[key] for key in told),
        bounds_told=len(told),
        busy=worked / ((end - first) * stream.gpus),
        evictions_per_job=evicted / len(history.runs),
    )


def line(row: Row, before: Row | None) -> str:
    def hours(value: float | None) -> str:
        return "never" if value is None else f"{value:.2f}"

    cost = "" if before is None else f"{100 * row.busy / before.busy:9.1f} %"
    stream = row.stream
    return (
        f"{stream.load:4.2f} {stream.mean_s / 60:6.0f} min  {stream.declares:<16}{'yes' if row.collects else 'no':<8}"
        f"{row.started:>3} of {row.gangs:<3}{hours(row.median_wait_h):>9}{hours(row.longest_wait_h):>9}"
        f"{row.bounds_kept:>6} of {row.bounds_told:<4}{100 * row.busy:7.1f} %{row.evictions_per_job:9.4f}{cost}"
    )


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=float, nargs="*", default=[0.9, 1.05])
    parser.add_argument("--minutes", type=float, nargs="*", default=[10, 240])
    parser.add_argument("--declares", nargs="*", default=list(DECLARES), choices=DECLARES)
    parser.add_argument("--every", type=float, default=24.0, help="hours between two gangs")
    parser.add_argument("--hours", type=float, default=48.0, help="of arrivals, of ten-minute jobs; longer jobs thrice")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(words)
    print("load     run  declares        collects gangs     median  longest  bound kept    busy  evictions  busy kept")
    rows: list[Row] = []
    for minutes in args.minutes:
        for load in args.loads:
            for declares in args.declares:
                hours = args.hours if minutes <= 60 else 3 * args.hours
                stream = Stream(load, minutes * 60, declares, hours)
                for collects in (False, True):
                    row = play(stream, every_h=args.every, seed=args.seed, collects=collects)
                    print(line(row, rows[-1] if collects else None), flush=True)
                    rows.append(row)
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
