"""What would happen to a job before it is made: the operator's answer, with the documents that it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SubmissionPlan:
    """A value: nothing exists yet. `str(plan)` says it in words."""

    manifest: Document
    """The TrainingJob."""
    code: Document | None
    """The ConfigMap with its files."""
    answer: Mapping[str, Any]
    """Status of the operator's WhatIf; empty if it was not asked."""

    @property
    def job(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.manifest['metadata']['namespace']}/{self.manifest['metadata']['name']}"

    @property
    def starts_now(self) -> bool:
        return self.answer.get("outcome") == "Starts"

    @property
    def nodes(self) -> dict[str, int]:
        """Node → workers, if it would start."""
        return dict(self.answer.get("nodes") or {})

    @property
    def reason(self) -> str:
        """Why it would wait, in one word; empty if it would start."""
        return str(self.answer.get("reason") or "")

    @property
    def estimated_start(self) -> datetime | None:
        return _moment(self.answer.get("estimatedStart"))

    @property
    def latest_start(self) -> datetime | None:
        """The time by which it has started in nine of ten cases."""
        return _moment(self.answer.get("latestStart"))

    @property
    def victims(self) -> list[str]:
        """Jobs that would have to leave. Those that the caller may not see have no name."""
        return [one["job"] for one in self.answer.get("victims") or ()]

    @property
    def delayed(self) -> list[str]:
        """Waiting jobs that would start later."""
        return [one["job"] for one in self.answer.get("delayed") or ()]

    @property
    def would_start_if(self) -> str:
        """The smallest change with which it would start at once; empty if there is none."""
        return str(self.answer.get("wouldStartIf") or "")

    def __str__(self) -> str:
        if not self.answer:
            return f"{self.job}: the operator was not asked."
        return "\n".join(sentences(self.job, self.answer, most=len(self.delayed)))


class Tone(StrEnum):
    """The kind of news, for colours."""

    NAME = "name"
    STARTS = "starts"
    WAITS = "waits"
    NEEDS_CHANGE = "needs change"


def _plain(text: str, _: Tone) -> str:
    return text


def _as_given(timestamp: str) -> str:
    return str(_moment(timestamp))


def sentences(
    job: str,
    status: Mapping[str, Any],
    *,
    most: int,
    painted: Callable[[str, Tone], str] = _plain,
    when: Callable[[str], str] = _as_given,
) -> Iterator[str]:
    """The status of a WhatIf about `job` in words, one line each, with at most this many of the jobs that it would
    delay.
    """
    named, asks = painted(job, Tone.NAME), status.get("asks", "")
    nodes = ", ".join(f"{node} ({workers})" for node, workers in (status.get("nodes") or {}).items())
    match status.get("outcome"):
        case "Starts":
            yield painted(f"{named} would start now for {asks}, workers on {nodes}.", Tone.STARTS)
        case "StartsAfterEvictions":
            yield f"{named} would start for {asks} on {nodes}, as soon as others have left:"
        case _:
            tone = Tone.NEEDS_CHANGE if status.get("needsChange") else Tone.WAITS
            yield f"{named} would wait for {asks}: {painted(status.get('reason', ''), tone)}"
            yield status.get("message", "")
    for one in status.get("victims") or []:
        yield f"  would have to leave: {one['job']}, {one['asks']}: {one['why']}"
    yield from _delayed(status, most)
    if start := status.get("estimatedStart"):
        by = f", nine times out of ten by {when(status['latestStart'])}" if status.get("latestStart") else ""
        yield f"Would start at about {when(start)}{by}."
    if status.get("wouldStartIf"):
        yield painted(f"Would start now if {status['wouldStartIf']}.", Tone.STARTS)


def _delayed(status: Mapping[str, Any], most: int) -> Iterator[str]:
    delayed = status.get("delayed") or []
    shown = delayed[:most]
    for one in shown:
        yield f"  delayed by it: {one['job']}, {one['asks']}: {one['why']}"
    if more := len(delayed) - len(shown) + status.get("delayedMore", 0):
        yield f"  and {more} more"


def _moment(text: Any) -> datetime | None:
    return datetime.fromisoformat(str(text)) if text else None
