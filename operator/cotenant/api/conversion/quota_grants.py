"""QuotaRequests → grants of the core, and the queues that have them.

A request grants what was pinned in its status when its approval was first seen, as long as three things hold: the
approval stands, the spec is the approved one, and the queue serves its namespace. So editing a spec, or making another
request of the same name, gains nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.quota_requests import MoreQuota, QuotaRequest, QuotaRequestSpec
from cotenant.api.scalars.quantities import mib_down
from cotenant.core.model.objects import TenantQueue
from cotenant.core.quota.grants import Grant, GrantLine, NotAdded, with_grants


@dataclass(frozen=True, slots=True)
class EffectiveQueues:
    queues: dict[str, TenantQueue]
    """By name, with their live grants."""
    not_added: tuple[NotAdded, ...]
    until: float | None
    """When the first of these grants ends; None if there is none."""


def effective_queues(
    queues: Mapping[str, TenantQueue], requests: Iterable[QuotaRequest], now: float
) -> EffectiveQueues:
    """Queues with their current grants. Cheap if nothing is granted."""
    of_queue: dict[str, list[Grant]] = {}
    for request in requests:
        grant = grant_of(request)
        queue = queues.get(grant.queue) if grant is not None else None
        if grant is not None and queue is not None and grant.is_live(now) and _namespace(request) in queue.namespaces:
            of_queue.setdefault(grant.queue, []).append(grant)
    found, not_added = dict(queues), list[NotAdded]()
    parents = {queue.parent for queue in queues.values()} if of_queue else set()
    for name in sorted(of_queue):
        found[name], left_out = with_grants(queues[name], of_queue[name], has_children=name in parents)
        not_added += left_out
    until = min((grant.until for grants in of_queue.values() for grant in grants), default=None)
    return EffectiveQueues(found, tuple(not_added), until)


def grant_of(request: QuotaRequest) -> Grant | None:
    """The current grant; None if there is none, it was taken back, or it was for another spec."""
    status, granted = request.status, request.status.granted
    if status.approval is None or status.approval.decision != "Approved" or granted is None:
        return None
    if granted.digest != spec_digest(request.spec) or granted.since is None or granted.until is None:
        return None
    return Grant(
        key=request.key,
        queue=granted.queue,
        since=unix_seconds(granted.since) or 0.0,
        until=min(unix_seconds(granted.until) or 0.0, request.spec.until_at),
        lines=grant_lines(granted.quotas),
    )


def grant_lines(quotas: Iterable[MoreQuota]) -> tuple[GrantLine, ...]:
    return tuple(
        GrantLine(
            gpu_class=line.gpu_class,
            zone=line.zone,
            user=line.user,
            milli=line.gpus,
            guaranteed=line.guaranteed,
            memory_mib=0 if line.memory is None else mib_down(line.memory),
        )
        for line in quotas
    )


def spec_digest(spec: QuotaRequestSpec) -> str:
    text = json.dumps(spec.to_document(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _namespace(request: QuotaRequest) -> str:
    return request.metadata.namespace or "default"
