"""`cotenant stop JOB`: the ranks save and end, and the GPUs become free. `cotenant resume` continues the job."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from cotenant.cli.tenants.jobs import (
    Document,
    add_wait,
    named,
    phase_of,
    refuse_finished,
    refuse_session,
    suspend,
    suspend_sweep,
    wait_for,
)
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import is_of

HOLDING = ("Starting", "Running", "Evicting")


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(verbs, "stop", run, "have a job save and end, and give its GPUs back, until it is resumed")
    parser.add_argument("jobs", metavar="JOB", nargs="+", help="NAME, or NAMESPACE/NAME; sw/NAME of a whole sweep")
    add_wait(parser, "its GPUs are given back")


def run(args: argparse.Namespace) -> int:
    for text in args.jobs:
        if is_of("sweep", text):
            suspend_sweep(args, text, True)
            continue
        connection, name = named(args, text)
        job = connection.read(name.path)
        refuse_session(job, name, "stop")
        refuse_finished(job, name, "there is nothing to stop")
        holds = phase_of(job) in HOLDING
        if (job.get("spec") or {}).get("suspend"):
            print(f"{name} was stopped before.")
        else:
            suspend(connection, name, job, True)
            print(f"{name} {_asked(job) if holds else 'does not wait any more.'}", flush=True)
        if args.wait:
            began = time.monotonic()
            stopped = wait_for(connection, name, ("Suspended", "Succeeded", "Failed"), args.timeout)
            print(f"{name} " + "; ".join(ended(stopped, time.monotonic() - began)))
    return 0


def _asked(job: Document) -> str:
    grace = (job.get("spec") or {}).get("gracePeriod") or "30s"
    return f"was asked to save and to end; it has {grace} for that."


def ended(job: Document, seconds: float) -> Iterator[str]:
    """The outcome, in clauses."""
    status = job.get("status") or {}
    if phase_of(job) != "Suspended":
        yield f"has finished meanwhile: {phase_of(job)}"
        return
    yield f"has given its GPUs back after {seconds:.0f} s"
    saved = (status.get("progress") or {}).get("lastCheckpoint") or {}
    if saved.get("step") is not None:
        yield f"the checkpoint of step {saved['step']} is kept"
    message = (status.get("lastExit") or {}).get("message")
    if message:
        yield str(message)
