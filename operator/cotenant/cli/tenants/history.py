"""`cotenant history`: finished runs, including those of deleted jobs; `history JOB`: what happened to one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

from cotenant.cli.tenants.records import Run, gpu_hours, length, local_time, run_of, runs_of
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import connect
from cotenant.cli.terminal.object_names import named
from cotenant.cli.terminal.output import Colour, counted, object_table, painted
from cotenant.cli.terminal.watch import show_found
from cotenant.sdk.objects.answer_texts import asked

HEADER = ("NAME", "OUTCOME", "QUEUE", "ASKED", "RAN", "GPU-HOURS", "ATTEMPTS", "FINISHED")
WIDE = ("USER", "MESSAGE")
TAIL = 10
COLOURS = {"Succeeded": Colour.GREEN, "Failed": Colour.RED, "Deleted": Colour.YELLOW}


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs,
        "history",
        run,
        "list finished runs, also of deleted jobs, or show what happened to one",
        all_namespaces=True,
        watched=True,
    )
    parser.add_argument("job", metavar="JOB", nargs="?", help="show what happened to this job: NAME, or NAMESPACE/NAME")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="list the newest N (default: 50)")


def run(args: argparse.Namespace) -> int:
    if args.job:
        return show_found(args, partial(run_of, *named(args, args.job)), lambda found, _: sentences(found))
    everywhere: bool = args.all_namespaces
    read = partial(runs_of, connect(args), everywhere=everywhere, most=args.limit)
    return show_found(args, read, lambda found, wide: [as_table(found["items"], namespaces=everywhere, wide=wide)])


def as_table(runs: list[Run], *, namespaces: bool, wide: bool) -> str:
    if not runs:
        return "No run is over yet."
    if wide:
        return object_table((*HEADER, *WIDE), runs, lambda one: cells(one) + wide_cells(one), namespaces=namespaces)
    return object_table(HEADER, runs, cells, namespaces=namespaces)


def cells(run: Run) -> tuple[str, ...]:
    status = run["status"]
    return (
        run["metadata"]["name"],
        _outcome(status["outcome"]),
        status["queue"],
        asked(status),
        length(status["runSeconds"]),
        gpu_hours(status["gpuSeconds"]),
        str(status["attempts"]),
        local_time(status.get("finishedAt", "")),
    )


def wide_cells(run: Run) -> tuple[str, ...]:
    return run["status"].get("user", ""), run["status"].get("message", "")


def sentences(run: Run) -> Iterator[str]:
    """One run in words, one line each."""
    metadata, status = run["metadata"], run["status"]
    name = painted(f"{metadata['namespace']}/{metadata['name']}", Colour.BOLD)
    yield f"{name} {_outcome(status['outcome'])} in queue {status['queue']}: {asked(status)}"
    if status.get("message"):
        yield str(status["message"])
    yield (
        f"Ran {length(status['runSeconds'])} in {counted(status['attempts'], 'attempt')}"
        f" ({status['failures']} failed), held {gpu_hours(status['gpuSeconds'])} GPU-hours."
    )
    if status["steps"]:
        yield f"Made {status['steps']}" + (f" of {status['stepsOf']}" if status["stepsOf"] else "") + " steps."
    for name, value in (status.get("results") or {}).items():
        yield f"  {name}: {value}"
    for one in status.get("timeline") or []:
        reason = f" ({one['reason']})" if one.get("reason") and one["reason"] != one["what"] else ""
        yield f"{local_time(one['at'])}  {one['what']}{reason}" + (f": {one['message']}" if one.get("message") else "")
    if status.get("tail"):
        rank = f" of rank {status['exitRank']}" if "exitRank" in status else ""
        yield f"The last lines{rank}, which ended with {status.get('exitCode')} ({status.get('exitReason')}):"
        yield from (f"  {line}" for line in status["tail"][-TAIL:])


def _outcome(outcome: str) -> str:
    return painted(outcome, COLOURS[outcome]) if outcome in COLOURS else outcome
