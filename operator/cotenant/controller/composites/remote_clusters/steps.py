"""The next step of a job that is on another cluster, from its record here and the job there. Pure: time comes in.

Each step may be repeated after a crash at any point, and a request that arrives late starts nothing:
- The job there is made suspended. Its name follows from the job here.
- The uid of the job there is written here before the job there is released. The release fails if the job there has
  changed meanwhile.
- To fetch the job back, the job there is deleted, unless it has changed since it was seen to hold nothing. The record
  here is cleared only when the job there was seen to be gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from cotenant import names
from cotenant.api.conversion.conditions import find, without
from cotenant.api.resources.placement_status import ClusterRun
from cotenant.api.resources.trainingjob_status import PendingStatus, TrainingJobStatus
from cotenant.api.scalars.fields import moment, show_time
from cotenant.api.scalars.status_text import plain_sentence, plain_word
from cotenant.controller.composites.remote_clusters.mirror import SeenMirror
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.controller.lifecycle.status_transitions import CLUSTER_LOST, altered, told
from cotenant.core.model.lifecycle import HOLDING, TERMINAL, Phase

SUSPENDED: Final = "spec.suspend was set"
BACK: Final = "BackFromCluster"
DELETED_THERE: Final = "DeletedThere"


@dataclass(frozen=True, slots=True)
class MakeMirror:
    """Make the job there, suspended."""


@dataclass(frozen=True, slots=True)
class PatchMirror:
    """Merge patch of the job there, for the version that was seen."""

    seen: SeenMirror
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteMirror:
    """Delete the job there, in the version that was seen."""

    seen: SeenMirror


@dataclass(frozen=True, slots=True)
class WriteJob:
    """Write the status of the job here."""

    status: TrainingJobStatus
    event: EventToRecord | None = None


Step: TypeAlias = MakeMirror | PatchMirror | DeleteMirror | WriteJob


def next_step(
    record: JobRecord, cluster: ClusterRun, seen: SeenMirror | None, now: float, *, server: str = ""
) -> Step | None:
    """The next step; None if there is nothing to do. `seen` is the job there, as the cluster has answered; None if it
    does not exist there.
    """
    if record.deleting:
        return DeleteMirror(seen) if seen is not None and not seen.is_deleting else None
    suspended = record.job is not None and record.job.spec.suspend
    if cluster.returning is not None:
        return _fetch_back(record, cluster, seen, now, suspended=suspended)
    if suspended:
        return _returning(record, cluster, SUSPENDED)
    if seen is None and not cluster.uid:
        return MakeMirror() if record.job is not None else None
    if seen is None:
        return _ended_there(record, cluster, now)
    if (cluster.uid, cluster.server) != (seen.uid, server):
        at = cluster.model_copy(update={"uid": seen.uid, "server": server})
        return WriteJob(_with_cluster(record.status, at))
    if seen.is_suspended and not seen.is_released and not seen.is_deleting:
        return PatchMirror(seen, _released(now))
    if seen.phase is Phase.INVALID:
        why = f"cluster {cluster.name} refuses it: {seen.status.message or 'it gives no reason'}"
        return _returning(record, cluster, plain_sentence(why))
    return _written(record, mirrored(record, cluster, seen, now), seen)


def _fetch_back(
    record: JobRecord, cluster: ClusterRun, seen: SeenMirror | None, now: float, *, suspended: bool
) -> Step | None:
    if seen is None:
        message = f"the job is back from cluster {cluster.name}: {cluster.returning}"
        return WriteJob(back(record, message, now), EventToRecord(reason=BACK, message=message))
    if seen.phase in TERMINAL or (seen.holds and not suspended and not seen.is_suspended):
        # It started there, or ended, before it could be fetched back: there it stays.
        return _written(record, mirrored(record, cluster.model_copy(update={"returning": None}), seen, now), seen)
    if seen.is_deleting:
        return None
    if not seen.holds:
        return DeleteMirror(seen)
    if not seen.is_suspended:
        return PatchMirror(seen, {"spec": {"suspend": True}})
    return _written(record, mirrored(record, cluster, seen, now), seen)


def _released(now: float) -> dict[str, Any]:
    at = show_time(moment(now))
    return {"metadata": {"annotations": {names.ANNOTATION_RELEASED: at}}, "spec": {"suspend": False}}


def _returning(record: JobRecord, cluster: ClusterRun, why: str) -> WriteJob:
    return WriteJob(_with_cluster(record.status, cluster.model_copy(update={"returning": why})))


def _with_cluster(status: TrainingJobStatus, cluster: ClusterRun) -> TrainingJobStatus:
    return status.model_copy(update={"cluster": cluster})


def _written(record: JobRecord, status: TrainingJobStatus, seen: SeenMirror) -> WriteJob | None:
    if status.to_document() == record.status.to_document():
        return None
    if status.phase == record.phase:
        return WriteJob(status)
    said = {Phase.RUNNING: "Running", Phase.SUCCEEDED: "Succeeded", Phase.FAILED: "Failed"}.get(seen.phase)
    if said is None:
        return WriteJob(status)
    event = EventToRecord(reason=said, message=status.message or said, warning=seen.phase is Phase.FAILED)
    return WriteJob(status, event)


def mirrored(record: JobRecord, cluster: ClusterRun, seen: SeenMirror, now: float) -> TrainingJobStatus:
    """The status here, with the state of the job there. What it holds there is charged there."""
    before, there = record.status, seen.status
    usage = there.usage
    cluster = cluster.model_copy(
        update={
            "uid": seen.uid,
            "phase": seen.phase.value,
            "reason": plain_word(there.reason or ""),
            "message": plain_sentence(there.message or ""),
            "attempts": there.attempts,
            "gpu_seconds": usage.gpu_seconds if usage is not None else 0,
        }
    )
    status = _heard(_with_cluster(before, cluster))
    message = plain_sentence(f"on cluster {cluster.name}: {there.message or seen.phase.value}")
    if seen.phase not in HOLDING | TERMINAL:
        if before.phase == Phase.PENDING:
            return status  # why it waits here is told by the decisions here
        pending = PendingStatus(reason=there.reason or "Pending", message=message, since=moment(now))
        return _moved(status, Phase.PENDING, there, message, now, pending=pending)
    fields: dict[str, Any] = {
        "pending": None,
        "workers": there.workers,
        "gpus": there.gpus,
        "progress": there.progress,
        "isolation": there.isolation,
        "isolation_levels": there.isolation_levels,
        "started_at": there.started_at,
    }
    if there.last_exit is not None:
        fields |= {"last_exit": there.last_exit, "earlier_exits": there.earlier_exits}
    if seen.phase in TERMINAL:
        fields |= {"results": there.results, "finished_at": there.finished_at or moment(now)}
    return _moved(status, seen.phase, there, message, now, **fields)


def _moved(
    status: TrainingJobStatus, phase: Phase, there: TrainingJobStatus, message: str, now: float, **fields: Any
) -> TrainingJobStatus:
    said = {"phase": phase, "reason": plain_word(there.reason or phase.value), "message": message}
    return altered(status, now, **said, **fields)


def _heard(status: TrainingJobStatus) -> TrainingJobStatus:
    return status.model_copy(update={"conditions": without(status.conditions, CLUSTER_LOST)})


def back(record: JobRecord, message: str, now: float) -> TrainingJobStatus:
    """The status of a job that has come back and waits here."""
    message = plain_sentence(message)
    return altered(
        _heard(record.observed_status),
        now,
        cluster=None,
        phase=Phase.PENDING,
        reason=BACK,
        message=message,
        pending=PendingStatus(reason=BACK, message=message, since=moment(now)),
        progress=None,
        isolation=None,
        isolation_levels=None,
    )


def _ended_there(record: JobRecord, cluster: ClusterRun, now: float) -> WriteJob:
    message = (
        f"somebody deleted the job on cluster {cluster.name}, where it was"
        f" {cluster.namespace}/{cluster.job}. To run it again, make a new job"
    )
    status = altered(
        _heard(record.status),
        now,
        phase=Phase.FAILED,
        reason=DELETED_THERE,
        message=message,
        pending=None,
        finished_at=moment(now),
    )
    return WriteJob(status, EventToRecord(reason=DELETED_THERE, message=message, warning=True))


def lost(record: JobRecord, cluster: ClusterRun, why: str, heard_at: float, now: float) -> TrainingJobStatus | None:
    """The status of a job on a cluster that is silent; None if it says so already."""
    since = min(int(heard_at), int(now))
    if find(record.status.conditions, CLUSTER_LOST) is not None:
        return None
    message = plain_sentence(
        f"nothing is heard of cluster {cluster.name} since {show_time(moment(since))}: {why}. The job may go on"
        " there; nothing is started here"
    )
    return told(record.status, CLUSTER_LOST, True, "NotHeard", message, at=since, generation=record.generation)


def given_up(record: JobRecord, cluster: ClusterRun, after_s: int, now: float) -> WriteJob | None:
    """The status of a job that comes back without having been seen to be gone, after a long silence. It may run twice
    for a while.
    """
    said = find(record.status.conditions, CLUSTER_LOST)
    if said is None or now < said.last_transition_time.timestamp() + after_s:
        return None
    message = (
        f"the job was given up on cluster {cluster.name}, of which nothing was heard since"
        f" {show_time(said.last_transition_time)}. It waits here again, and may still run there until that"
        " cluster answers; then it is ended there"
    )
    return WriteJob(back(record, message, now), EventToRecord(reason="GivenUpThere", message=message, warning=True))


def said_of_loss(status: TrainingJobStatus) -> str:
    return next((one.message for one in status.conditions if one.type == CLUSTER_LOST), "")
