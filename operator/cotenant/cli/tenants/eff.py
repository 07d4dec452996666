"""`cotenant eff JOB`: how much a run used of what it held, and what to write instead."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from cotenant.cli.tenants.records import Run, gpu_hours, length, percent, run_of
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.object_names import named
from cotenant.cli.terminal.output import Colour, painted
from cotenant.cli.terminal.watch import show_found
from cotenant.names import ENOUGH_SAMPLES
from cotenant.sdk.objects.answer_texts import asked

GIB = 1024


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs, "eff", run, "show how much a run used of what it held, and what to ask for next time", watched=True
    )
    parser.add_argument("job", metavar="JOB", help="NAME, or NAMESPACE/NAME; the job may be deleted")


def run(args: argparse.Namespace) -> int:
    return show_found(args, partial(run_of, *named(args, args.job)), lambda found, _: sentences(found))


def sentences(run: Run) -> Iterator[str]:
    """The efficiency in words, one line each."""
    metadata, status = run["metadata"], run["status"]
    name = painted(f"{metadata['namespace']}/{metadata['name']}", Colour.BOLD)
    yield f"{name} {status['outcome']} after {length(status['runSeconds'])}: {asked(status)}"
    yield f"Held         {gpu_hours(status['gpuSeconds'])} GPU-hours"
    use = status.get("use") or {}
    if not use:
        yield "Its use of them is unknown: no agent reported it, or another replica leads since then."
    elif use.get("simulated"):
        yield "Its GPUs were simulated: nothing computes on them, so there is no use to judge."
    else:
        yield from _measured(use)
    if status.get("memoryPeakMiB"):
        yield f"             {_gib(status['memoryPeakMiB'])} at most of one rank, as its framework counts"
    if status["restarts"]:
        yield f"Restarts     {status['restarts']}, {status['failures']} by its own fault"
    for one in status.get("advice") or []:
        yield painted(f"- {one}", Colour.GREEN)
    if use and not use.get("simulated") and not status.get("advice"):
        few = use["samples"] < ENOUGH_SAMPLES
        yield "That is too few samples to judge its use." if few else "It used what it asked for: nothing to change."


def _measured(use: Mapping[str, Any]) -> Iterator[str]:
    shared = ", beside other jobs on the same GPUs" if use.get("shared") else ""
    yield (
        f"GPU compute  {percent(use.get('busyPercent'))} of the time a kernel ran,"
        f" {percent(use.get('idlePercent'))} of the samples nothing did{shared} ({use['samples']} samples)"
    )
    peak, held = use["memoryPeakMiB"], use["memoryHeldMiB"]
    yield f"GPU memory   {percent(use.get('memoryPercent'))}: at most {_gib(peak)} of {_gib(held)} on one GPU"


def _gib(mib: int) -> str:
    return f"{mib / GIB:.1f} GiB"
