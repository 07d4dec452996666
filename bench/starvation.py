"""How long gangs wait among small jobs for each `Policy.collect_after_s`, and what that patience costs.

    python -m bench.starvation                        # every stream below, some minutes
    python -m bench.starvation --weeks philly helios  # weeks like those of published traces, a quarter of an hour
    python -m bench.starvation --json out.json        # the same as values

A stream has Poisson arrivals of one-GPU jobs, and a gang of `--gang` GPUs every `--every` hours. All GPUs are
guaranteed to the one queue, or with `--borrows` half of them to the queue of the small jobs and none to that of the
gangs. A week (`parts.weeks`) has jobs of many sizes on 128 GPUs in four queues; its gangs are the jobs of 8 GPUs and
more. Each is played without reservations (patience 0) and with each patience from the same dice, so its rows compare.
Waits of gangs, median and longest, are in hours ("never": some wait at the end); those of other jobs are means. "Bound
kept": gangs that started by the first `startsBy` that they were told. "Busy": GPU time of jobs without the work that
evictions lost, over what there was, from the first gang on (in weeks: from the second day on), and the points of it
that the patience costs.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from bench.parts.weeks import HOURS, WEEKS, week
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Admit, Plan
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.simulator.engine import Pace, simulate
from cotenant.simulator.scenario import Arrival, Scenario
from tests.support.clusters import make_job, make_node, make_queue

HOUR = 3_600.0
GANG = 8
"""GPUs from which on a job counts as a gang."""
DECLARES = ("nothing", "expectedRuntime", "maxRuntime")


@dataclass(frozen=True, slots=True)
class Stream:
    load: float
    mean_s: float
    declares: str
    hours: float
    gpus: int = 32
    gang: int = 16
    borrows: bool = False


@dataclass(slots=True)
class Watch:
    """Decides, and notes starts and first bounds."""

    policy: Policy
    bounds: dict[JobKey, float] = field(default_factory=dict)
    started: dict[JobKey, float] = field(default_factory=dict)

    def __call__(self, snapshot: Snapshot) -> Plan:
        plan = schedule(snapshot, self.policy)
        for action in plan.actions:
            if isinstance(action, Admit):
                self.started.setdefault(action.job, snapshot.now)
        for key, verdict in plan.verdicts.items():
            if verdict.starts_by is not None:
                self.bounds.setdefault(key, verdict.starts_by)
        return plan


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    patience_s: int
    gangs: int
    started: int
    median_wait_h: float | None
    longest_wait_h: float | None
    others_wait_h: float
    bounds_kept: int
    bounds_told: int
    busy: float
    evictions_per_job: float


def scenario(stream: Stream, every_h: float, seed: int) -> Scenario:
    """Small jobs run for 0.7 to 1.3 times the mean; gangs as long as they do."""
    dice = random.Random(seed)
    nodes = tuple(make_node(f"n{index}", gpus=8) for index in range(stream.gpus // 8))
    gang, at = stream.gang, 0.0
    arrivals: list[Arrival] = []
    gang_load = gang * stream.mean_s / (every_h * HOUR * stream.gpus)
    rate = max(0.05, stream.load - gang_load) * stream.gpus / stream.mean_s
    while (at := at + dice.expovariate(rate)) < stream.hours * HOUR:
        true = stream.mean_s * dice.uniform(0.7, 1.3)
        arrivals.append(_arrival(f"small-{len(arrivals)}", 1, at, true, stream))
    for number in range(int(stream.hours / every_h)):
        at = (number + 0.5) * every_h * HOUR
        arrivals.append(_arrival(f"gang-{number}", gang, at, stream.mean_s, stream))
    queues = [make_queue("red", guaranteed=stream.gpus // (2 if stream.borrows else 1))]
    return Scenario(0.0, nodes, (*queues, make_queue("blue", guaranteed=0)), tuple(arrivals))


def _arrival(name: str, workers: int, at: float, true: float, stream: Stream) -> Arrival:
    queue = "blue" if stream.borrows and workers > 1 else "red"
    expected = round(true) if stream.declares == "expectedRuntime" else None
    most = round(true * 1.2) if stream.declares == "maxRuntime" else None
    job = make_job(name, queue=queue, workers=workers, at=at, expected_runtime_s=expected, max_runtime_s=most)
    return Arrival(at, job, true)


def play(name: str, world: Scenario, *, since: float, end: float, patience_s: int) -> Row:
    """Jobs that came from `since` until 8 hours before `end` are judged; both in seconds."""
    watch = Watch(Policy(forecasts=0, advice=0, collect_after_s=patience_s))
    history = simulate(world, watch, pace=Pace(tick_s=600.0))
    judged = [one for one in world.arrivals if since <= one.at < end - 8 * HOUR]
    gangs = {one.job.key: one.at for one in judged if gpus_of(one) >= GANG}
    starts = {key: watch.started[key] for key in gangs if watch.started.get(key, end) < end}
    waits = sorted(starts[key] - gangs[key] for key in starts)
    others = [min(end, watch.started.get(one.job.key, end)) - one.at for one in judged if one.job.key not in gangs]
    worked = 0.0
    for run in history.runs.values():
        held = sum(max(0.0, min(end, one.end) - max(since, one.start)) for one in run.held)
        worked += (held - run.lost_s) * gpus_of(run.arrival)
    evicted = sum(" in favour of " in line for _, line in history.log)
    told = [key for key in starts if key in watch.bounds]
    return Row(
        name=name,
        patience_s=patience_s,
        gangs=len(gangs),
        started=len(starts),
        median_wait_h=median(waits) / HOUR if waits else None,
        longest_wait_h=waits[-1] / HOUR if len(waits) == len(gangs) and waits else None,
        others_wait_h=sum(others) / max(1, len(others)) / HOUR,
        bounds_kept=sum(starts[key] <= watch.bounds[key] for key in told),
        bounds_told=len(told),
        busy=worked / ((end - since) * sum(len(node.gpus) for node in world.nodes)),
        evictions_per_job=evicted / len(history.runs),
    )


def gpus_of(arrival: Arrival) -> int:
    return arrival.job.workers_min * arrival.job.gpu.count


def line(row: Row, before: Row | None) -> str:
    def hours(value: float | None) -> str:
        return "never" if value is None else f"{value:.2f}"

    cost = "" if before is None else f"{100 * (before.busy - row.busy):8.2f} points"
    return (
        f"{row.name:<31}{row.patience_s / 60:6.0f} min"
        f"{row.started:>4} of {row.gangs:<3}{hours(row.median_wait_h):>9}{hours(row.longest_wait_h):>9}"
        f"{row.others_wait_h:>9.2f}{row.bounds_kept:>6} of {row.bounds_told:<4}{100 * row.busy:7.1f} %"
        f"{row.evictions_per_job:9.4f}{cost}"
    )


def streams(args: argparse.Namespace) -> Iterator[tuple[str, Scenario, float, float]]:
    """(name, scenario, first gang, end) of each stream that was asked for, times in seconds."""
    for minutes in args.minutes:
        for load in args.loads:
            for declares in args.declares or DECLARES:
                hours = args.hours if minutes <= 60 else 3 * args.hours
                stream = Stream(load, minutes * 60, declares, hours, gang=args.gang, borrows=args.borrows)
                world = scenario(stream, args.every, args.seed)
                yield f"{load:4.2f} {minutes:6.0f} min  {declares}", world, args.every / 2 * HOUR, hours * HOUR


def weeks(args: argparse.Namespace) -> Iterator[tuple[str, Scenario, float, float]]:
    """The same of weeks, from their second day on."""
    for name in args.weeks:
        for load in args.loads:
            for declares in args.declares or ("nothing",):
                world = week(name, load=load, nodes=16, seed=args.seed, declares=declares)
                yield f"{load:4.2f} {name:<11}{declares}", world, 24 * HOUR, HOURS * HOUR


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=float, nargs="*", default=[0.9, 1.05])
    parser.add_argument("--minutes", type=float, nargs="*", default=[10, 240])
    parser.add_argument("--declares", nargs="*", choices=DECLARES, help="all; in weeks: nothing")
    parser.add_argument("--every", type=float, default=24.0, help="hours between two gangs")
    parser.add_argument("--hours", type=float, default=48.0, help="of arrivals, of ten-minute jobs; longer jobs thrice")
    parser.add_argument("--patience", type=int, nargs="*", default=[600, 1_800, 3_600, 7_200, 21_600], help="seconds")
    parser.add_argument("--gang", type=int, default=16, help="GPUs of each gang, 8 to 32")
    parser.add_argument("--borrows", action="store_true", help="gangs have to borrow")
    parser.add_argument("--weeks", nargs="*", default=[], choices=list(WEEKS), help="play these in place of streams")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(words)
    print(
        f"{'load     run  declares':<31}  patience  gangs      median  longest   others  bound kept    busy  evictions"
    )
    rows: list[Row] = []
    for name, world, since, end in weeks(args) if args.weeks else streams(args):
        before = None
        for patience_s in (0, *args.patience):
            row = play(name, world, since=since, end=end, patience_s=patience_s)
            print(line(row, before), flush=True)
            before = before or row
            rows.append(row)
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
