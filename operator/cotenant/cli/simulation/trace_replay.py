"""`cotenant simulate --trace FILE`: replays recorded jobs, with their arrivals and run times, under several policies.

The trace says what happened. What a job declares is another column, or `--declare`. Nodes come from `--cluster`, or
with the queues from documents (`-f`). The policies are simulated one after the other with the operator's own decisions.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cotenant.controller.settings import Settings
    from cotenant.simulator.comparison import Played
    from cotenant.simulator.scenario import Scenario
    from cotenant.simulator.traces.trace import Trace
    from cotenant.simulator.workload import Cluster

ORDERS = ("Age", "LeastService", "Predicted")
POOL = ("FIFO", "LAS", "SRSF")
_TICK_S = 300.0
"""Seconds between two decisions while a job's patience may end."""
_PROGRESS_S = 0.5
"""Seconds between two lines of progress on a terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a trace: arrivals and run times as they were")
    group.add_argument("--trace", metavar="FILE", help="trace to replay: CSV, SWF, openb, Philly or Helios; also .gz")
    group.add_argument(
        "--layout",
        choices=("csv", "swf", "openb", "philly", "helios"),
        help="layout of the trace (default: recognised)",
    )
    group.add_argument("--cluster", metavar="52x8[:CLASS],…", help="nodes x GPUs (default: GPUNodes given with -f)")
    group.add_argument(
        "--since", metavar="TIME", help="only jobs that arrived at or after this time: a date, or seconds"
    )
    group.add_argument("--until", metavar="TIME", help="only jobs that arrived before this time")
    group.add_argument("--queue", metavar="NAME", help="put all jobs into this queue")
    group.add_argument(
        "--declare",
        metavar="PERCENT|none",
        help="every job declares this percentage of its true run time as expectedRuntime (default: as in the trace)",
    )
    group.add_argument(
        "--policy",
        action="append",
        metavar="NAME",
        help=f"{', '.join(ORDERS)}: the operator's decisions; {', '.join(POOL)}: orders of the literature on a pool"
        " without nodes, queues and costs; may be repeated (default: Age, LeastService, LAS, SRSF)",
    )
    group.add_argument(
        "--start-cost", type=float, default=10.0, metavar="S", help="seconds from a start to the first step"
    )
    group.add_argument(
        "--checkpoint", type=float, default=600.0, metavar="S", help="seconds between two checkpoints of a job"
    )
    group.add_argument(
        "--picture", metavar="FILE.svg", help="write a picture of how long jobs took and how busy the GPUs were"
    )


def run(args: argparse.Namespace, settings: Settings, documents: Sequence[Mapping[str, Any]]) -> int:
    """Replay the trace and print its figures. Raises ValueError with a message for the person at the terminal."""
    from cotenant.simulator import comparison
    from cotenant.simulator.workload import scenario_of

    trace, cluster = read_trace(args), cluster_of(args, documents)
    scenario = scenario_of(trace, cluster)
    for note in (*trace.notes, *ignored_jobs(documents)):
        print(f"note: {note}", file=sys.stderr)
    played = [
        play(name, trace, scenario, settings, args) for name in args.policy or ("Age", "LeastService", "LAS", "SRSF")
    ]
    if args.picture:
        from cotenant.simulator.chart import svg

        title = f"{Path(args.trace).name}: {len(trace.jobs):,} jobs on {cluster.gpus:,} GPUs"
        Path(args.picture).write_text(svg(played, cluster.gpus, title), encoding="utf-8")
    if args.output == "json":
        print(json.dumps(comparison.as_values(played, scenario.queues, cluster.gpus)))
        return 0
    print(
        f"{len(trace.jobs):,} jobs, {cluster.gpus:,} GPUs on {len(cluster.nodes):,} nodes, {counted_queues(scenario)}\n"
    )
    print("\n".join(comparison.table(played, cluster.gpus)))
    if len(scenario.queues) > 1 and (rows := comparison.queue_table(played, scenario.queues))[1:]:
        print("\n" + "\n".join(rows))
    return 0


def read_trace(args: argparse.Namespace) -> Trace:
    from cotenant.simulator.traces.formats import read_file
    from cotenant.simulator.traces.trace import seconds_of

    trace = read_file(args.trace, args.layout)
    if args.since or args.until:
        start, end = (seconds_of(text) if text else None for text in (args.since, args.until))
        trace = trace.window(start, end)
    if args.declare:
        trace = trace.declaring(None if args.declare == "none" else int(args.declare))
    return trace.in_one_queue(args.queue) if args.queue else trace


def cluster_of(args: argparse.Namespace, documents: Sequence[Mapping[str, Any]]) -> Cluster:
    """Nodes from `--cluster`, otherwise from the documents; queues from the documents, if there are any."""
    from cotenant.simulator import scenario
    from cotenant.simulator.workload import Cluster, nodes_of

    if not documents:
        if not args.cluster:
            raise ValueError("no GPUs to run on: give --cluster 52x8, or documents with GPUNodes (-f)")
        return Cluster(nodes_of(args.cluster))
    nodes, queues = scenario.read_cluster(documents)
    return Cluster(nodes_of(args.cluster) if args.cluster else nodes, queues)


def ignored_jobs(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """A warning about jobs among the documents, which the replay ignores."""
    jobs = sum(document.get("kind") == "TrainingJob" for document in documents)
    verb = "TrainingJob of the documents is" if jobs == 1 else "TrainingJobs of the documents are"
    return [f"{jobs} {verb} not played: the jobs are those of the trace"] if jobs else []


def play(name: str, trace: Trace, scenario: Scenario, settings: Settings, args: argparse.Namespace) -> Played:
    from cotenant.core.model.objects import TimeOrder
    from cotenant.core.scheduling.scheduler import schedule
    from cotenant.simulator import engine
    from cotenant.simulator.comparison import Played
    from cotenant.simulator.job_run import Costs
    from cotenant.simulator.outcomes import outcomes_of
    from cotenant.simulator.yardsticks import YARDSTICKS, play_on_pool

    if name in YARDSTICKS:
        return Played(name, play_on_pool(name, trace.jobs, sum(len(node.gpus) for node in scenario.nodes)), True)
    if name not in ORDERS:
        raise ValueError(f"there is no policy {name!r}; there are {', '.join((*ORDERS, *POOL))}")
    moves = any(queue.consolidation for queue in scenario.queues)
    policy = settings.policy if moves else replace(settings.policy, forecasts=0)  # nobody reads an estimate here
    order = TimeOrder(name)
    queues = tuple(replace(queue, order=order) for queue in scenario.queues)
    history = engine.simulate(
        replace(scenario, queues=queues),
        partial(schedule, policy=policy),
        costs=Costs(start_s=args.start_cost, checkpoint_s=args.checkpoint),
        half_life_s=settings.history_half_life_s,
        pace=engine.Pace(progress=progress(name, scenario), tick_s=None if order is TimeOrder.AGE else _TICK_S),
    )
    return Played(name, outcomes_of(history))


def progress(name: str, scenario: Scenario) -> Callable[[float, int], None] | None:
    """Print the progress to stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        return None
    last = 0.0

    def show(now: float, ended: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _PROGRESS_S:
            last = time.monotonic()
            day = (now - scenario.start) / 86_400
            print(
                f"\r{name}: day {day:.1f}, {ended:,} of {len(scenario.arrivals):,} jobs ended", end="", file=sys.stderr
            )

    return show


def counted_queues(scenario: Scenario) -> str:
    return "1 queue" if len(scenario.queues) == 1 else f"{len(scenario.queues):,} queues"
