"""Decides which jobs to hand to another cluster now. Pure: time comes in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from cotenant.api.conversion import conditions
from cotenant.api.resources.placement_status import ClusterRun
from cotenant.api.resources.queues import Queue
from cotenant.api.resources.remote_clusters import RemoteClusterSpec, SpilloverSpec
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.api.resources.trainingjobs import Spillover
from cotenant.api.scalars.fields import moment
from cotenant.controller.composites.remote_clusters.mirror import mirror_name, travel_problem
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.status_transitions import SPILLOVER, told
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.plan import Reason

HELPED: Final = frozenset(
    {
        Reason.NO_QUOTA,
        Reason.EXCEEDS_LIMIT,
        Reason.WAITING_FOR_QUOTA,
        Reason.TOO_MANY_PENDING,
        Reason.CLASS_NOT_FOUND,
        Reason.CLASS_NOT_SHARED,
        Reason.ZONE_NOT_FOUND,
        Reason.EXCEEDS_CLUSTER,
        Reason.WAITING_FOR_GPUS,
        Reason.WAITING_FOR_CPU_OR_MEMORY,
        Reason.WAITING_FOR_TOPOLOGY,
        Reason.WAITING_FOR_SPREAD,
        Reason.GPUS_BOOKED,
        Reason.NODES_NOT_READY,
    }
)
"""Reasons to wait that may not apply on another cluster.

A queue that is held or has spent its budget lets no job start anywhere. A job for which others are leaving stays.
"""


@dataclass(frozen=True, slots=True)
class Handover:
    record: JobRecord
    problem: str = ""
    """Why the job stays although its turn has come; empty if it goes."""


def handovers(
    jobs: Iterable[JobRecord],
    queues: Mapping[str, Queue],
    remote: str,
    now: float,
    *,
    not_before: Mapping[str, float],
) -> list[Handover]:
    """Jobs whose turn has come, longest wait first, at most as many as their queues allow there at once.

    `remote` is the name of the RemoteCluster, which answers. `not_before` maps the uid of a job to the earliest time at
    which it may go.
    """
    records = list(jobs)
    there: dict[str, int] = {}
    for one in records:
        if one.is_away and one.status.cluster is not None and one.status.cluster.name == remote:
            there[one.queue_named] = there.get(one.queue_named, 0) + 1
    due = []
    for one in records:
        spillover = _spillover(one, queues, remote)
        since = one.waits_since
        if spillover is None or since is None:
            continue
        if now >= max(since + spillover.after, not_before.get(one.uid, 0.0)):
            due.append((since, one.key, one, spillover))
    found = []
    for _, _, record, spillover in sorted(due, key=lambda one: one[:2]):
        problem = travel_problem(record.job, remote) if record.job is not None else ""
        if not problem:
            if there.get(record.queue_named, 0) >= spillover.max_jobs:
                continue
            there[record.queue_named] = there.get(record.queue_named, 0) + 1
        found.append(Handover(record, problem))
    return found


def _spillover(record: JobRecord, queues: Mapping[str, Queue], remote: str) -> SpilloverSpec | None:
    """The terms of its queue, if the job waits for a reason that may not apply on the other cluster."""
    queue = queues.get(record.queue_named)
    spillover = queue.spec.spillover if queue is not None else None
    if spillover is None or spillover.cluster != remote or record.job is None or record.problem is not None:
        return None
    if record.phase is not Phase.PENDING or record.is_away or record.deleting or record.awaits_word:
        return None
    if record.job.spec.suspend or record.job.spec.spillover is Spillover.NEVER or record.status_problem is not None:
        return None
    pending = record.status.pending
    return spillover if pending is not None and pending.reason in HELPED else None


def handed_over(record: JobRecord, remote: str, spec: RemoteClusterSpec, now: float) -> TrainingJobStatus:
    """The status that names the cluster. It is written before anything is made there."""
    cluster = ClusterRun(
        name=remote, namespace=spec.namespace or record.namespace, job=mirror_name(record), since=moment(now)
    )
    message = f"the job stands in the line here and on cluster {remote}: the first of them that has a place runs it"
    return told(record.status.model_copy(update={"cluster": cluster}), SPILLOVER, True, "HandedOver", message, at=now)


def stays(record: JobRecord, remote: str, problem: str, now: float) -> TrainingJobStatus | None:
    """The status of a job that cannot go; None if it says so already."""
    message = f"the job is not handed to cluster {remote}: {problem}"
    said = conditions.find(record.status.conditions, SPILLOVER)
    if said is not None and (said.status, said.message) == ("False", message):
        return None
    return told(record.status, SPILLOVER, False, "StaysHere", message, at=now)
