"""Where a TrainingJob runs: GPUs by node and rank with what is enforced on them, or another cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from cotenant.api.resources.job_spec.machine import MAX_GPUS_PER_RANK, MAX_RANKS
from cotenant.api.resources.job_spec.parameter_servers import MAX_SERVERS
from cotenant.api.scalars.fields import Timestamp
from cotenant.api.scalars.status_fields import NameOfObject, ShortSentence, Word, at_most_by_admission
from cotenant.api.validation.rules import StatusModel


class Isolation(StrEnum):
    """What is enforced on the GPUs, from nothing to a hard limit."""

    NONE = "None"
    COOPERATIVE = "Cooperative"
    WATCHED = "Watched"
    HARD = "Hard"


class IsolationLevels(StatusModel):
    """What is enforced, for each dimension of a GPU."""

    memory: Isolation = Isolation.NONE
    compute: Isolation = Isolation.NONE


class GrantStatus(StatusModel):
    uuid: Annotated[str, Field(min_length=1, json_schema_extra={"maxLength": 64})]
    memory_mib: int = Field(alias="memoryMiB", ge=0)
    compute_milli: int = Field(ge=0, le=1000)


class RankStatus(StatusModel):
    rank: int = Field(ge=0)
    gpus: Annotated[tuple[GrantStatus, ...], Field(min_length=1), at_most_by_admission(MAX_GPUS_PER_RANK)]


class NodeStatus(StatusModel):
    node: Annotated[str, Field(min_length=1, json_schema_extra={"maxLength": 253})]
    ranks: Annotated[tuple[RankStatus, ...], Field(min_length=1), at_most_by_admission(MAX_RANKS)]


class PlacementStatus(StatusModel):
    """Node → ranks → GPUs. Pod i of the running attempt is `nodes[i]`; rank 0 is the first rank of the first node."""

    nodes: Annotated[tuple[NodeStatus, ...], Field(min_length=1), at_most_by_admission(MAX_RANKS)]
    admitted_at: Timestamp
    """When the job got its GPUs."""
    backfilled_until: Timestamp | None = None
    """If it started on GPUs that are reserved for another job: when it said that it would end."""
    workers: int = Field(ge=1)
    """Ranks in all."""
    isolation: Isolation = Isolation.NONE
    """Level of memory isolation that was certain at admission. Later findings are in `status.isolationLevels`."""
    priority: int | None = None
    """Priority at admission. It counts while the PriorityClass of the job is missing."""
    servers: int | None = Field(default=None, ge=0, le=MAX_SERVERS)
    """Number of parameter servers. The kube-scheduler places their pods, which hold no GPU."""


class ClusterRun(StatusModel):
    """The cluster to which a job was handed, and the job's state there."""

    name: NameOfObject
    """The RemoteCluster."""
    namespace: NameOfObject
    """Namespace of the job there."""
    job: NameOfObject
    """Name of the TrainingJob there."""
    since: Timestamp
    """When it was handed over."""
    uid: Word = ""
    """Uid of the TrainingJob there, once it is made."""
    server: NameOfObject = ""
    """Address of the API server there, once it is made."""
    phase: Word = ""
    """Phase of the job there."""
    reason: Word = ""
    message: ShortSentence = ""
    """The phase as a sentence."""
    attempts: int = Field(default=0, ge=0)
    """Attempts there."""
    gpu_seconds: int = Field(default=0, ge=0)
    """GPUs × seconds held there. They are charged to the queue there, not to the queue here."""
    returning: ShortSentence | None = None
    """If set, the reason why the job is fetched back. It starts nowhere until it is gone there."""
