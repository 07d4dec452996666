"""The status of a RemoteCluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.api.conversion import conditions
from cotenant.api.resources.remote_clusters import RemoteCluster, RemoteClusterStatus
from cotenant.api.scalars.fields import moment
from cotenant.api.scalars.status_text import plain_sentence
from cotenant.controller.composites.remote_clusters.trouble import TroubleError
from cotenant.controller.informers.job_record import JobRecord
from cotenant.core.model.lifecycle import HOLDING

REACHABLE = "Reachable"
SEEN_EVERY_S = 60
"""`lastSeen` is written this often if nothing else changes."""


def cluster_status(
    remote: RemoteCluster, trouble: TroubleError | None, *, server: str, away: Iterable[JobRecord], now: float
) -> RemoteClusterStatus:
    """`trouble` is None if the cluster has just answered; `away` are the jobs there."""
    before, records = remote.status, list(away)
    last = before.last_seen
    if trouble is None:
        message, reason = "the cluster answers", "Answers"
        if last is None or now - last.timestamp() >= SEEN_EVERY_S:
            last = moment(int(now))
    else:
        message, reason = plain_sentence(trouble.message), trouble.reason
    value = str(trouble is None)
    generation = remote.metadata.generation
    condition = conditions.renewed(before.conditions, REACHABLE, value, reason, message, at=now, generation=generation)
    return RemoteClusterStatus(
        reachable=value,
        message=message,
        server=server or before.server,
        jobs=len(records),
        running=sum(one.phase in HOLDING for one in records),
        last_seen=last,
        conditions=(condition,),
        observed_generation=generation,
    )
