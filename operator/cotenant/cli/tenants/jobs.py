"""Reading and writing TrainingJobs: fetch one document, wait for a phase."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from cotenant import names
from cotenant.cli.errors import EXIT_NOT_FOUND, EXIT_REFUSED, UserError
from cotenant.cli.terminal.cluster_verb import add_timeout
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.object_names import ObjectName
from cotenant.cli.terminal.watch import looks

FINISHED: Final = frozenset({"Succeeded", "Failed"})
HOLDING: Final = ("Starting", "Running", "Evicting")
EVERY_S: Final = 1.0
WAIT_S: Final = 900.0
Document = Mapping[str, Any]


def add_wait(parser: argparse.ArgumentParser, until: str) -> None:
    parser.add_argument("--wait", action="store_true", help=f"wait until {until}")
    add_timeout(parser, WAIT_S, f"give up --wait after this time (default: {WAIT_S:.0f})")


def phase_of(job: Document) -> str:
    return str((job.get("status") or {}).get("phase") or "Pending")


def made_by(job: Document, kind: str) -> str:
    """Name of the object of this kind that controls the job; empty if none does."""
    owners = job["metadata"].get("ownerReferences") or ()
    return next((str(one["name"]) for one in owners if one.get("kind") == kind and one.get("controller")), "")


def refuse_session(job: Document, name: ObjectName, verb: str) -> None:
    """Raises UserError if a Session controls the job, because the operator makes the job as the session wants it."""
    if session := made_by(job, "Session"):
        instead = f"kubectl cotenant session {verb} {name.namespace}/{session}"
        raise UserError(f"{name} is the job of session {session}: {instead}", EXIT_REFUSED)


def suspend(connection: Connection, path: str, found: Document, wanted: bool, reason: str | None = None) -> None:
    """Write `spec.suspend` of exactly this object, with this reason and no older one. A newer object of the same name
    is not changed.
    """
    metadata = {"uid": found["metadata"]["uid"]}
    if reason != (found["metadata"].get("annotations") or {}).get(names.ANNOTATION_SUSPEND_REASON):
        metadata["annotations"] = {names.ANNOTATION_SUSPEND_REASON: reason}
    connection.patch(path, {"metadata": metadata, "spec": {"suspend": wanted}})


def wait_for(
    connection: Connection,
    name: ObjectName,
    phases: Collection[str],
    timeout_s: float,
    on_change: Callable[[Document], object] = lambda _: None,
) -> Document:
    """Wait until the job is in one of these phases. `on_change` gets the job at every new phase or reason.

    Raises UserError if the job is deleted or the time is over.
    """
    last = ("", "")
    for job in looks(connection, name.path, timeout_s, EVERY_S):
        now = phase_of(job), str((job.get("status") or {}).get("reason") or "")
        if now != last:
            on_change(job)
            last = now
        if phase_of(job) in phases:
            return job
    raise UserError(f"{name} is {phase_of(job)} after {timeout_s:.0f} s: {_message(job)}".rstrip(": "))


def exists(connection: Connection, name: ObjectName) -> bool:
    try:
        connection.read(name.path)
    except UserError as error:
        if error.exit_code == EXIT_NOT_FOUND:
            return False
        raise
    return True


def _message(job: Document) -> str:
    return str((job.get("status") or {}).get("message") or "")
