"""`cotenant stop JOB`: the ranks save and end, and the GPUs become free. `cotenant resume` undoes it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from cotenant.cli.errors import EXIT_REFUSED, UserError
from cotenant.cli.tenants.jobs import FINISHED, HOLDING, Document, add_wait, phase_of, refuse_session, suspend, wait_for
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.object_names import ObjectName, is_of, named


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "stop a job: it saves, ends and gives its GPUs back, until it is resumed"
    add(cluster_verb(verbs, "stop", run, text), "its GPUs are given back", stops=True)


def add(parser: argparse.ArgumentParser, until: str, *, stops: bool) -> None:
    parser.add_argument("jobs", metavar="JOB", nargs="+", help="NAME, or NAMESPACE/NAME; sw/NAME for a whole sweep")
    add_wait(parser, until)
    parser.set_defaults(stops=stops)


def run(args: argparse.Namespace) -> int:
    for text in args.jobs:
        if is_of("sweep", text):
            _sweep(args, text)
            continue
        connection, name = named(args, text)
        job = connection.read(name.path)
        refuse_session(job, name, "stop" if args.stops else "resume")
        if phase_of(job) in FINISHED:
            instead = "there is nothing to stop" if args.stops else f"`kubectl cotenant retry {name}` runs it again"
            raise UserError(f"{name} has finished ({phase_of(job)}): {instead}", EXIT_REFUSED)
        if bool((job.get("spec") or {}).get("suspend")) == args.stops:
            print(_nothing_to_do(name, job, stops=args.stops))
        else:
            suspend(connection, name.path, job, args.stops)
            print(f"{name} {_asked(job) if args.stops else 'waits for its place again.'}", flush=True)
        if args.wait:
            print(_stopped(connection, name, args.timeout) if args.stops else _runs(connection, name, args.timeout))
    return 0


def _sweep(args: argparse.Namespace, text: str) -> None:
    if args.wait:
        raise UserError(f"--wait is for jobs: watch the trials with `kubectl cotenant sweep {text} -w`", EXIT_REFUSED)
    connection, name = named(args, text, "sweep")
    sweep, shown = connection.read(name.path), f"sweep {name}"
    if phase_of(sweep) in FINISHED:
        more = "nothing of it runs" if args.stops else "a larger spec.maxTrials lets it try more"
        raise UserError(f"{shown} has finished ({phase_of(sweep)}): {more}", EXIT_REFUSED)
    if bool(sweep["spec"].get("suspend")) == args.stops:
        print(_nothing_to_do(shown, sweep, stops=args.stops))
        return
    suspend(connection, name.path, sweep, args.stops)
    stopped, resumed = "its trials save and end, and it begins no other.", "its trials wait for their places again."
    print(f"{shown}: {stopped if args.stops else resumed}")


def _nothing_to_do(shown: object, found: Document, *, stops: bool) -> str:
    return f"{shown} was stopped before." if stops else f"{shown} was not stopped: it is {phase_of(found)}."


def _runs(connection: Connection, name: ObjectName, timeout_s: float) -> str:
    there = wait_for(connection, name, ("Running", *FINISHED), timeout_s)
    if phase_of(there) == "Failed":
        raise UserError(f"{name} has failed: {(there.get('status') or {}).get('message', '')}", EXIT_REFUSED)
    return f"{name} is {phase_of(there)}."


def _stopped(connection: Connection, name: ObjectName, timeout_s: float) -> str:
    began = time.monotonic()
    stopped = wait_for(connection, name, ("Suspended", *FINISHED), timeout_s)
    return f"{name} " + "; ".join(ended(stopped, time.monotonic() - began))


def _asked(job: Document) -> str:
    if phase_of(job) not in HOLDING:
        return "does not wait any more."
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
