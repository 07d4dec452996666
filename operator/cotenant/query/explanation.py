"""Why a job waits: the reason, its place in the line, the jobs before it and their rule, its start, and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from cotenant.core.model.formatting import describe_request
from cotenant.core.model.objects import Job, JobKey
from cotenant.query.redaction import JobMention, Sees, mentioned, redacted, uuids_of
from cotenant.query.situation import Situation
from cotenant.query.waiting_line import WaitingLine

NAMED_AHEAD: Final = 20
"""Jobs of the line that one answer describes. Others are counted."""
QUEUE_MISSING: Final = "QueueMissing"
"""Reason of a job that holds GPUs while its Queue is deleted."""


class Standing(StrEnum):
    """State of a job in a decision."""

    WAITING = "Waiting"
    ADMITTED = "Admitted"
    """It holds GPUs: it starts or runs."""
    LEAVING = "Leaving"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    job: JobKey
    standing: Standing
    queue: str
    asks: str
    priority: int
    submitted_at: float
    """Unix seconds, as all times here."""
    requeued_at: float | None = None
    """When it last began to wait; None if it has waited since it was submitted."""
    user: str = ""
    nodes: tuple[str, ...] = ()
    """Nodes on which it holds GPUs."""
    reason: str = ""
    message: str = ""
    needs_change: bool = False
    """True if waiting alone does not help."""
    evidence: tuple[tuple[str, str | int], ...] = ()
    position: int | None = None
    """Place in the estimated order of starts; 1 is the next."""
    ahead: tuple[JobMention, ...] = ()
    """Jobs before it, nearest first."""
    ahead_more: int = 0
    """Number of further jobs before it."""
    leaving: tuple[JobMention, ...] = ()
    """Jobs that are leaving the place that was promised to it."""
    start_at: float | None = None
    """Estimated start; earlier and later are equally likely."""
    start_by: float | None = None
    """In nine of ten cases it has started by then."""
    starts_by: float | None = None
    """It has started by then whatever jobs come meanwhile."""
    starts_by_basis: str = ""
    """If there is no such time, the reason, and what would give one."""
    would_start_if: str = ""
    change: tuple[tuple[str, str], ...] = ()
    """The same as fields of its document: (path, value as JSON; null removes it)."""
    namespaces: frozenset[str] = frozenset()
    """Namespaces of the jobs that it names."""

    def as_seen(self, sees: Sees) -> Explanation:
        """The answer without the names of jobs that the caller may not read."""

        def shown(text: str) -> str:
            return redacted(text, self.namespaces, sees)

        return replace(
            self,
            message=shown(self.message),
            starts_by_basis=shown(self.starts_by_basis),
            would_start_if=shown(self.would_start_if),
            evidence=tuple((name, shown(one) if isinstance(one, str) else one) for name, one in self.evidence),
            ahead=tuple(one.as_seen(sees) for one in self.ahead),
            leaving=tuple(one.as_seen(sees) for one in self.leaving),
            namespaces=frozenset(),
        )


def explain(situation: Situation, key: JobKey, line: WaitingLine | None = None) -> Explanation | None:
    """The explanation; None for a job that neither waits nor holds GPUs. `line` is the waiting line of this situation,
    if it was computed before.
    """
    line = line or WaitingLine(situation)
    before = line.before(key)
    about = summarise(situation, key, {key: len(before) + 1})
    job = situation.jobs.get(key)
    if about is None or job is None or about.position is None:
        return about
    ahead = tuple(situation.mention(one.key, line.why_before(one, job)) for one in before[: -NAMED_AHEAD - 1 : -1])
    leaving = tuple(situation.mention(one, "it was asked to leave") for one in _leaving(situation, job))
    return replace(
        about,
        ahead=ahead,
        ahead_more=len(before) - len(ahead),
        leaving=leaving,
        namespaces=about.namespaces | {one.namespace for one in (*ahead, *leaving)},
    )


def summarise(situation: Situation, key: JobKey, places: Mapping[JobKey, int]) -> Explanation | None:
    """The same without the jobs ahead and the leaving ones. `places` are positions, from 1."""
    job = situation.jobs.get(key)
    if job is None:
        return None
    about = Explanation(
        job=key,
        standing=_standing(job),
        queue=job.queue,
        asks=describe_request(job),
        priority=job.priority,
        submitted_at=job.submitted_at,
        requeued_at=job.requeued_at,
        user=job.user,
        nodes=tuple(part.node for part in job.placement.nodes) if job.placement else (),
    )
    if about.standing is not Standing.WAITING:
        is_missing = job.queue and job.queue not in situation.queues
        return _of_no_queue(about) if is_missing else about
    verdict = situation.verdicts.get(key)
    if verdict is None:
        return replace(about, message="It arrived after the last decision; ask again in a moment.")
    said = (verdict.message, verdict.starts_by_basis, verdict.would_start_if)
    texts = [*said, *(str(value) for _, value in verdict.evidence)]
    return replace(
        about,
        reason=verdict.reason.value,
        message=verdict.message,
        needs_change=verdict.reason.needs_change,
        evidence=verdict.evidence,
        position=None if verdict.reason.needs_change else places.get(key),
        start_at=verdict.estimated_start_at,
        start_by=verdict.latest_start_at,
        starts_by=verdict.starts_by,
        starts_by_basis=verdict.starts_by_basis,
        would_start_if=verdict.would_start_if,
        change=verdict.change,
        namespaces=frozenset(one for text in texts for one in mentioned(text, situation.namespaces)),
    )


def _of_no_queue(about: Explanation) -> Explanation:
    message = (
        f"Queue {about.queue} was deleted. What the job holds counts as borrowed, so that queues with a guarantee may"
        " have it back. If it has to leave, it starts again once the Queue is back."
    )
    return replace(about, reason=QUEUE_MISSING, message=message)


def _leaving(situation: Situation, job: Job) -> list[JobKey]:
    """Jobs that give back GPUs of the place that was promised to this one."""
    promised = dict(situation.snapshot.nominations).get(job.key)
    if promised is None:
        return []
    wanted = uuids_of(promised)
    going = (one for one in situation.snapshot.jobs if one.evicting)
    return sorted(one.key for one in going if one.placement is not None and wanted & uuids_of(one.placement))


def _standing(job: Job) -> Standing:
    if job.placement is None:
        return Standing.WAITING
    return Standing.LEAVING if job.evicting else Standing.ADMITTED
