"""The effect of a change of a job, read from its document, or why there is nothing to propose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cotenant.cli.tenants.jobs import FINISHED, HOLDING, made_by, phase_of

Document = Mapping[str, Any]
ACTIONS: Final = ("stop", "resume", "delete")


class NoChangeError(ValueError):
    """The action would do nothing, or would be refused or put back."""


def effects(job: Document, action: str) -> dict[str, str]:
    """The job's state, and what would happen to its work. Raises NoChangeError."""
    status = job.get("status") or {}
    phase = phase_of(job)
    if action not in ACTIONS:
        raise NoChangeError(f"action: {action!r}; one of {', '.join(ACTIONS)}")
    if action != "delete":
        _refuse_in_vain(job, action, phase)
    found = {"phase": phase}
    if summary := (status.get("progress") or {}).get("summary"):
        found["progress"] = str(summary)
    if action != "resume" and phase in HOLDING:
        found["itsWork"] = _work(status, action)
    return found


def _refuse_in_vain(job: Document, action: str, phase: str) -> None:
    metadata, is_stopped = job["metadata"], bool((job.get("spec") or {}).get("suspend"))
    name = f"{metadata['namespace']}/{metadata['name']}"
    if session := made_by(job, "Session"):
        raise NoChangeError(f"{name} is the job of session {session}: kubectl cotenant session {action}")
    if phase in FINISHED:
        raise NoChangeError(f"{name} has finished ({phase}): there is nothing to {action}")
    if action == "stop" and is_stopped:
        raise NoChangeError(f"{name} was stopped before")
    if action == "resume" and not is_stopped:
        raise NoChangeError(f"{name} was not stopped: it is {phase}")


def _work(status: Document, action: str) -> str:
    step = ((status.get("progress") or {}).get("lastCheckpoint") or {}).get("step")
    if step is not None:
        then = "resume goes on from there" if action == "stop" else "its files stay"
        return f"the checkpoint of step {step} is the last one known; {then}"
    return "no checkpoint is known: " + ("resume begins anew" if action == "stop" else "what it computed is lost")
