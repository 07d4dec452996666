"""A sweep as a handle: its trials, the best of them, its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from cotenant.sdk.errors import MissingObjectError, failure
from cotenant.sdk.job_paths import object_path
from cotenant.sdk.objects.async_object import AsyncObject
from cotenant.sdk.objects.async_run import AsyncRun


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """One configuration that a sweep tries or has tried."""

    number: int
    phase: str
    """Waiting, Running, Succeeded, Stopped (by the sweep, early) or Failed."""
    parameters: Mapping[str, str]
    """Values as the program gets them."""
    value: float | None
    """Value of the objective, at the end or at the last look."""
    message: str
    """Why it was stopped, failed, or cannot begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestResult:
    """The best of the trials that ended by themselves."""

    number: int
    job: str
    """Its TrainingJob."""
    value: float
    parameters: Mapping[str, str]
    results: Mapping[str, Any]
    """Final metrics of that job."""
    checkpoint: str | None
    """A folder in its volume, or the address of a store."""
    checkpoint_step: int | None


@dataclass(frozen=True, slots=True)
class AsyncSweep(AsyncObject):
    PLURAL: ClassVar[str] = "sweeps"
    KIND: ClassVar[str] = "Sweep"

    async def trials(self) -> list[TrialResult]:
        """All trials that have begun, by number."""
        found = (await self.status()).get("trials") or {}
        return [_trial(int(number), found[number]) for number in sorted(found, key=int)]

    async def best(self) -> BestResult | None:
        """The best so far; None until a trial has a result."""
        return _best(await self.status())

    async def result(self, timeout_s: float | None = None) -> BestResult:
        """The best, when all trials are over. Raises JobFailedError if the sweep failed; otherwise as `wait`."""
        status = await self.wait(timeout_s)
        found = _best(status)
        if status.get("phase") != "Succeeded" or found is None:
            raise failure(f"{self.namespace}/{self.name}", status)
        return found

    async def run(self, job: str) -> AsyncRun:
        """The job of a trial, such as that of `best()`. Raises MissingObjectError if it was deleted."""
        found = await self.server.request("GET", object_path(AsyncRun.PLURAL, self.namespace, job))
        owners = found["metadata"].get("ownerReferences") or ()
        if self.uid not in [one.get("uid") for one in owners]:
            raise MissingObjectError(f"{self.namespace}/{job} is no job of the sweep {self.name}")
        return AsyncRun(self.server, self.namespace, job, found["metadata"]["uid"])


def _trial(number: int, found: Mapping[str, Any]) -> TrialResult:
    return TrialResult(
        number=number,
        phase=str(found.get("phase") or "Waiting"),
        parameters=dict(found.get("parameters") or {}),
        value=found.get("value"),
        message=str(found.get("message") or ""),
    )


def _best(status: Mapping[str, Any]) -> BestResult | None:
    found = status.get("best")
    if not found:
        return None
    return BestResult(
        number=int(found["trial"]),
        job=str(found["job"]),
        value=float(found["value"]),
        parameters=dict(found.get("parameters") or {}),
        results=dict(found.get("results") or {}),
        checkpoint=found.get("checkpoint"),
        checkpoint_step=found.get("checkpointStep"),
    )
