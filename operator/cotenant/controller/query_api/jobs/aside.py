"""Jobs without a decision that are not over: suspended, invalid, set aside. It says why, and what brings them back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant.api.conversion.conditions import find, find_true
from cotenant.api.conversion.to_core import to_job
from cotenant.api.validation.problems import DocumentError
from cotenant.controller.informers import quarantine
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import STATUS_UNREADABLE, JobRecord
from cotenant.controller.lifecycle.status_transitions import SPILLOVER, START_BLOCKED
from cotenant.controller.manifests.owners import owner_of
from cotenant.controller.query_api.documents import Document, filled, timestamp
from cotenant.core.model.formatting import describe_request
from cotenant.core.model.lifecycle import TERMINAL, Phase
from cotenant.core.model.objects import Job, JobKey

_RETURNS: Final[Mapping[str, str]] = {
    Phase.SUSPENDED: "spec.suspend is false: kubectl cotenant {resume}",
    Phase.INVALID: "its spec is mended",
    STATUS_UNREADABLE: "the release that wrote its status is installed again, or its status is mended",
    "Away": "it is suspended and resumed, which takes it off that cluster",
    START_BLOCKED: "its pause is over, or its spec is edited; it is tried again by itself",
    quarantine.CONDITION: "the operator's next try works: it tries by itself, and soon after an edit",
}
AWAY: Final = "Away"
"""Standing of a job that has GPUs on another cluster, or is being fetched back from it."""
COMING: Final = "It arrived after the last decision; ask again in a moment."


def jobs_aside(cache: ObjectCache, namespace: str, decided: Mapping[JobKey, Any]) -> Iterator[JobRecord]:
    """Jobs of a namespace (of all if empty), sorted by name, that are not over and not in `decided`, if they have a
    reason.
    """
    for key, record in sorted(cache.jobs.items()):
        here = namespace in ("", record.namespace)
        if here and key not in decided and record.phase not in TERMINAL and _standing(record) in _RETURNS:
            yield record


def aside_status(record: JobRecord, classes: Mapping[str, int]) -> Document:
    """Status of an Explanation for such a job, without unknown fields. `classes` are PriorityClasses."""
    job, standing = _core_job(record, classes), _standing(record)
    message = (
        record.status_problem
        or record.problem
        or record.status.message
        or (COMING if record.phase is Phase.PENDING else "")
    )
    status: Document = {
        "standing": standing,
        "queue": record.queue_named,
        "asks": describe_request(job) if job else "",
        "submittedAt": timestamp(job.submitted_at) if job else None,
        "reason": record.status.reason or "",
        "message": message,
        "returnsIf": _RETURNS.get(standing, "").format(resume=_resume(record)),
        "change": {"spec.suspend": False} if standing == Phase.SUSPENDED else {},
    }
    needs_change = standing == Phase.SUSPENDED or record.problem is not None
    return filled(status) | {"queue": record.queue_named, "message": message, "needsChange": needs_change}


def elsewhere(record: JobRecord | None) -> Document:
    """What another cluster does about a job that waits here; empty if nothing."""
    if record is None:
        return {}
    cluster = record.status.cluster
    if cluster is not None:
        there = f": {cluster.message}" if cluster.message else ""
        return {"elsewhere": f"It is also in line on cluster {cluster.name}{there}"}
    said = find(record.status.conditions, SPILLOVER)
    return {"elsewhere": said.message} if said is not None and said.status == "False" else {}


def _standing(record: JobRecord) -> str:
    if record.status_problem is not None:
        return STATUS_UNREADABLE
    if record.is_away:
        return AWAY
    conditions = record.status.conditions
    if find_true(conditions, quarantine.CONDITION):
        return quarantine.CONDITION
    blocked = record.phase is Phase.PENDING and find_true(conditions, START_BLOCKED)
    return START_BLOCKED if blocked else record.phase.value


def _resume(record: JobRecord) -> str:
    """The verb that lets the job go on. The operator writes `spec.suspend` of a Session's job as the Session has it."""
    session = owner_of(record.job.metadata.owner_references, "Session") if record.job else None
    return f"session resume {record.namespace}/{session[0]}" if session else f"resume {record.key}"


def _core_job(record: JobRecord, classes: Mapping[str, int]) -> Job | None:
    if record.job is None:
        return None
    try:
        return to_job(record.job, priority_classes=dict(classes))
    except DocumentError:
        return None
