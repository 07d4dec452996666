"""`cotenant why JOB`: why the job waits, which jobs are before it, when it starts, what would start it now."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from cotenant.cli.errors import EXIT_NOT_FOUND, EXIT_UNAVAILABLE, UserError
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.object_names import ObjectName, named
from cotenant.cli.terminal.output import Colour, about_when, painted
from cotenant.cli.terminal.watch import show_found
from cotenant.sdk.job_paths import below

SHOWN = 5
"""At most this many jobs ahead are listed. `-o wide` lists all of the answer."""
ASKED_MAX: Final = 20
"""How often the operator is asked about a job that it has not seen yet."""
ASKED_S: Final = 0.5
QUIET: Final = frozenset({None, "Admitted", "Running"})
"""Reasons of an attempt to which nothing has happened."""
OF_QUOTAS: Final = frozenset({"NoQuota", "ExceedsLimit"})
"""Reasons for which a QuotaRequest may help."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs, "why", run, "explain why a job waits, when it starts, and what would start it now", watched=True
    )
    parser.add_argument("job", metavar="JOB", help="NAME, or NAMESPACE/NAME")


def run(args: argparse.Namespace) -> int:
    explained = partial(explanation, *named(args, args.job))
    return show_found(args, explained, lambda found, wide: sentences(found, wide=wide), "trainingjob")


def explanation(connection: Connection, name: ObjectName) -> dict[str, Any]:
    """The operator's answer. If the operator has not seen the job yet, it is asked again. Raises UserError."""
    path = below("", name.namespace, "explanations", name.name)
    for _ in range(ASKED_MAX):
        try:
            return connection.get(path)
        except UserError as error:
            if error.exit_code != EXIT_NOT_FOUND:
                raise
            connection.read(name.path)
        time.sleep(ASKED_S)
    raise UserError(f"the operator has not seen {name} yet: ask again", EXIT_UNAVAILABLE)


def sentences(answer: Mapping[str, Any], *, wide: bool = False) -> Iterator[str]:
    """The answer in words, one line each."""
    metadata, status = answer["metadata"], answer.get("status") or {}
    job, standing = f"{metadata['namespace']}/{metadata['name']}", status.get("standing", "")
    if standing != "Waiting":
        attempt = status.get("attempt") or {}
        yield f"{painted(job, Colour.BOLD)} does not wait: {_of_standing(standing, attempt)}"
        yield from filter(None, (attempt.get("message"), status.get("message")))
        command = status.get("returnsIf", "").partition(": ")[2] if standing == "Suspended" else ""
        if command:
            yield f"To have it in line again: {command}"
        elif status.get("returnsIf"):
            yield f"It is in line again when {status['returnsIf']}"
        if status.get("ifResumed"):
            yield f"Resumed now, {status['ifResumed']}"
        if status.get("wouldStartIf"):
            yield painted(f"Would start now if {status['wouldStartIf']}.", Colour.GREEN)
        return
    reason = painted(status.get("reason") or "Pending", Colour.RED if status.get("needsChange") else Colour.YELLOW)
    yield f"{painted(job, Colour.BOLD)} waits in queue {status['queue']} for {status['asks']}: {reason}"
    yield status.get("message", "")
    if status.get("elsewhere"):
        yield status["elsewhere"]
    yield from _line(status, wide=wide)
    yield from _start(status)
    yield from _change(status)
    if status.get("reason") in OF_QUOTAS:
        yield (
            "An administrator may grant more for some time:"
            f" kubectl cotenant quota request gpus=N --for 7d --reason WHY -n {metadata['namespace']}"
        )


def _of_standing(standing: str, attempt: Mapping[str, Any]) -> str:
    phase, reason = attempt.get("phase"), attempt.get("reason")
    doing = f"is {phase}{f' ({reason})' if reason not in QUIET else ''}" if phase else "starts or runs"
    known = {
        "Admitted": f"it has GPUs, and {doing}.",
        "Leaving": "it was asked to give its GPUs back.",
        "Away": "it is on another cluster.",
    }
    return known.get(standing, f"it is {standing or 'unknown to the operator'}.")


def _line(status: Mapping[str, Any], *, wide: bool) -> Iterator[str]:
    for one in status.get("leaving") or []:
        yield f"  leaving for it: {one['job']}, {one['asks']}"
    ahead = status.get("ahead") or []
    if not ahead:
        if status.get("position") == 1:
            yield "It is the next to start."
        return
    yield f"Place {status['position']} in line. Before it:"
    shown = ahead if wide else ahead[:SHOWN]
    for one in shown:
        yield f"  {one['job']}, {one['asks']}: {one['why']}"
    if more := len(ahead) - len(shown) + status.get("aheadMore", 0):
        yield f"  and {more} more"


def _start(status: Mapping[str, Any]) -> Iterator[str]:
    if status.get("needsChange"):
        yield "Waiting alone does not help."
    elif start := status.get("estimatedStart"):
        by = f", nine times out of ten by {about_when(status['latestStart'])}" if status.get("latestStart") else ""
        yield f"Starts at about {about_when(start)}{by}."
    else:
        yield "There is no estimate of its start yet."
        if latest := status.get("startsBy"):
            yield f"Starts by {about_when(latest)} at the latest, whatever jobs come meanwhile."
        elif status.get("startsByBasis"):
            yield status["startsByBasis"]


def _change(status: Mapping[str, Any]) -> Iterator[str]:
    if not status.get("wouldStartIf"):
        return
    yield painted(f"Would start now if {status['wouldStartIf']}.", Colour.GREEN)
    for path, value in (status.get("change") or {}).items():
        yield f"  {path}: {'(left out)' if value is None else json.dumps(value)}"
