"""The status of one QuotaRequest, from its document, the queues and the time. Pure.

Pending → Granted → Expired, or Revoked if the approval is withdrawn; Pending → Denied. The first look at an approval
pins in `status.granted` what it grants. That counts from then on; if the spec was edited in between, nothing is
granted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from cotenant.api.conversion.conditions import renewed
from cotenant.api.conversion.quota_grants import effective_queues, grant_lines, spec_digest
from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.quota_requests import Granted, MoreQuota, QuotaRequest, QuotaRequestStatus
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.fields import moment
from cotenant.controller.composites.composite import Writes
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.core.model.formatting import format_gpus, format_instant, join_or
from cotenant.core.model.objects import TenantQueue
from cotenant.core.quota.grant_warnings import beyond_parents

LOOK_S: Final = 60.0
"""A queue may change without an event for the request, so the status is computed again after this time,"""
LOOK_EACH_S: Final = 0.03
"""or after this time for each request that exists: a tenant who makes ten thousand waits longer, and nobody else does.
"""
_EVENTS: Final = {
    "Pending": "QuotaPending",
    "Granted": "QuotaGranted",
    "Denied": "QuotaDenied",
    "Revoked": "QuotaRevoked",
    "Expired": "QuotaExpired",
    "Invalid": "QuotaInvalid",
}
"""Phase → reason of the Event when a request enters it."""
_NOTES: Final = frozenset({"Applicable", "WithinParents"})
OVER: Final = frozenset({"Denied", "Revoked", "Expired"})
"""Phases that do not end."""


def next_step(request: QuotaRequest, queues: Mapping[str, TenantQueue], now: float, requests: int = 1) -> Writes:
    """The status lacks the approval, which is the administrator's. `queues` are all queues, without grants; `requests`
    is the number of QuotaRequests.
    """
    before, approval = request.status, request.status.approval
    queue, problem = _queue_of(request, queues)
    granted = before.granted
    ends_at = _ends_at(request)
    asked = describe(request.spec.quotas)
    if approval is not None and approval.decision == "Denied":
        why = f": {approval.message}" if approval.message else ""
        phase = "Revoked" if granted is not None else "Denied"
        verb = "took the approval back" if granted is not None else "denied it"
        message = f"{approval.by} {verb}{why}"
    elif now >= ends_at:
        phase, ended = "Expired", format_instant(ends_at)
        message = f"it ended at {ended}" if granted is not None else f"nobody granted it before {ended}"
    elif problem:
        phase, message = "Invalid", problem
    elif approval is None:
        phase, message = (
            "Pending",
            f"an administrator has to answer: {asked} for queue {queue} until {request.spec.until}",
        )
    elif granted is not None and granted.digest != spec_digest(request.spec):
        phase, message = "Invalid", "its spec is not the one that was approved: make another request"
    else:
        phase, message = "Granted", f"{approval.by} granted queue {queue} {asked} until {format_instant(ends_at)}"
        granted = granted or _grant(request, queue, now)
    status = QuotaRequestStatus(
        phase=phase, message=message, queue=queue, asked=asked, granted=granted,
        observed_generation=request.metadata.generation,
    )  # fmt: skip
    conditions = _conditions(request, status, queues, now)
    notes = [one.message for one in conditions if one.status == "False" and one.type in _NOTES]
    if phase in {"Pending", "Granted"} and notes:
        status = status.model_copy(update={"message": ". But ".join([message, *notes])})
    status = status.model_copy(update={"conditions": conditions})
    event = EventToRecord(reason=_EVENTS[phase], message=status.message, warning=phase == "Invalid" or bool(notes))
    return Writes(
        status=status.to_document(),
        events=(event,) if phase != before.phase else (),
        look_again_at=None if phase in OVER else min(ends_at, now + max(LOOK_S, LOOK_EACH_S * requests)),
    )


def _queue_of(request: QuotaRequest, queues: Mapping[str, TenantQueue]) -> tuple[str, str]:
    """The queue that is asked, and what is wrong with it. After a grant: the queue of the grant."""
    namespace = request.metadata.namespace or "default"
    serving = sorted(name for name, queue in queues.items() if namespace in queue.namespaces)
    granted = request.status.granted
    named = granted.queue if granted is not None else request.spec.queue
    hint = f"; it is served by {join_or(serving)}" if serving else ", and no other queue does"
    if named is not None:
        return named, "" if named in serving else f"queue {named} does not serve namespace {namespace}{hint}"
    if len(serving) == 1:
        return serving[0], ""
    if not serving:
        return "", f"no queue serves namespace {namespace}: ask an administrator to add it to one"
    return "", f"namespace {namespace} is served by {join_or(serving)}: make a request that names one as spec.queue"


def _conditions(
    request: QuotaRequest, status: QuotaRequestStatus, queues: Mapping[str, TenantQueue], now: float
) -> tuple[Condition, ...]:
    approval = request.status.approval
    found = {
        "Pending": ("Unknown", "NotAnswered"),
        "Denied": ("False", "Denied"),
        "Revoked": ("False", "Revoked"),
    }.get(status.phase, ("Unknown", "NotAnswered") if approval is None else ("True", "Approved"))
    answered = (
        status.message
        if approval is None
        else f"{approval.decision} by {approval.by}" + (f": {approval.message}" if approval.message else "")
    )
    made = [("Approved", *found, answered)]
    if status.phase in {"Pending", "Granted"}:
        not_added, beyond = _obstacles(request, status, queues, now)
        made.append(
            ("Applicable", "False", "AddsNothing", "; ".join(not_added)) if not_added
            else ("Applicable", "True", "Adds", "all of it adds to what the queue may hold")
        )  # fmt: skip
        made.append(
            ("WithinParents", "False", "BeyondParents", "; ".join(beyond)) if beyond
            else ("WithinParents", "True", "WithinParents", "the queues above have room for it")
        )  # fmt: skip
    made.append(("Live", "True" if status.phase == "Granted" else "False", status.phase, status.message))
    return tuple(_condition(request, *one, now=now) for one in made)


def _obstacles(
    request: QuotaRequest, status: QuotaRequestStatus, queues: Mapping[str, TenantQueue], now: float
) -> tuple[list[str], list[str]]:
    """Why the grant would add nothing, and where the queues above have no room for it, if it were the only grant."""
    granted = status.granted or _grant(request, status.queue, now)
    approved = request.status.approval or {"decision": "Approved", "by": "nobody yet"}
    assumed = request.model_copy(
        update={"status": QuotaRequestStatus.model_validate({"approval": approved, "granted": granted})}
    )
    effective = effective_queues(queues, [assumed], now)
    lines = grant_lines(granted.quotas)
    beyond = [why for line in lines for why in beyond_parents(effective.queues, granted.queue, line)]
    return [one.why for one in effective.not_added], list(dict.fromkeys(beyond))


def _grant(request: QuotaRequest, queue: str, now: float) -> Granted:
    """What an approval grants from now on."""
    since, until, asked = moment(int(now)), moment(int(_ends_at(request))), request.spec
    return Granted(queue=queue, quotas=asked.quotas, since=since, until=until, digest=spec_digest(asked))


def _condition(request: QuotaRequest, kind: str, value: str, reason: str, message: str, *, now: float) -> Condition:
    known, generation = request.status.conditions, request.metadata.generation
    return renewed(known, kind, value, reason, message, at=now, generation=generation)


def _ends_at(request: QuotaRequest) -> float:
    """Unix seconds. The approval may end it earlier than the request asks."""
    ends = [request.spec.until_at]
    approval, granted = request.status.approval, request.status.granted
    if approval is not None and approval.until is not None:
        ends.append(datetime.fromisoformat(approval.until).timestamp())
    if granted is not None and granted.until is not None:
        ends.append(unix_seconds(granted.until) or 0.0)
    return min(ends)


def describe(quotas: Sequence[MoreQuota]) -> str:
    """Text such as `4 GPUs of class H100 in zone eu-1 (2 guaranteed), 2 GPUs for ann`."""
    return ", ".join(_describe_line(line) for line in quotas)


def _describe_line(line: MoreQuota) -> str:
    text = "1 GPU" if line.gpus == 1000 else f"{format_gpus(line.gpus)} GPUs"
    text += f" of class {line.gpu_class}" if line.gpu_class else ""
    text += f" in zone {line.zone}" if line.zone else ""
    text += f" for {line.user}" if line.user else ""
    return text + (f" ({format_gpus(line.guaranteed)} guaranteed)" if line.guaranteed else "")
