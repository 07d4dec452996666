"""Status of a TrainingJob, written by the controller. Writing `placement` is what admits a job."""

from __future__ import annotations

import math
from itertools import islice
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from cotenant.api.resources.job_spec.machine import MAX_GPUS_PER_RANK
from cotenant.api.resources.job_spec.profile import ProfileSpec
from cotenant.api.resources.placement_status import ClusterRun, Isolation, IsolationLevels, PlacementStatus
from cotenant.api.resources.staging_status import StagingStatus
from cotenant.api.scalars.fields import Timestamp, keyed_by
from cotenant.api.scalars.status_fields import (
    Line,
    NameOfObject,
    Sentence,
    ShortSentence,
    Word,
    at_most,
    cut_at,
    entries,
    lines_within,
)
from cotenant.api.validation.rules import StatusModel
from cotenant.core.model.lifecycle import Phase

METRICS_MAX, METRICS_CHARS_MAX = 128, 4096
PER_RANK_MAX = 1024
"""The progress has figures of this many ranks at most."""
CONDITIONS_MAX = 10
LOW_USE, GPU_IDLE = "LowUse", "GPUIdle"
"""Condition of a job that leaves much unused, and its reason where nothing computes: evictions go by it."""
EXCLUDED_NODES_MAX = 64
WARNINGS_MAX = 33
TAIL_LINES_MAX, TAIL_CHARS_MAX = 100, 4096
EXIT_MESSAGE_CHARS_MAX = 2048
"""The status's own message has the whole text."""
EVALUATOR_MESSAGE_CHARS_MAX = 256
"""The log of its pod has more."""
EARLIER_EXITS_MAX = 2
EARLIER_TAIL_LINES_MAX, EARLIER_TAIL_CHARS_MAX, EARLIER_MESSAGE_CHARS_MAX = 10, 768, 256


def _finite(value: Any) -> Any:
    """Metrics with NaN and infinity as texts, because JSON has neither."""
    if isinstance(value, dict):
        return {
            str(key): (str(item) if isinstance(item, float) and not math.isfinite(item) else item)
            for key, item in value.items()
        }
    return value


def _within(value: dict[str, int | float | str]) -> dict[str, int | float | str]:
    """The first metrics, as many as fit."""
    kept: dict[str, int | float | str] = {}
    room = METRICS_CHARS_MAX
    for key, item in islice(value.items(), METRICS_MAX):
        room -= len(key) + len(str(item))
        if room < 0:
            break
        kept[key] = item
    return kept


Metrics = Annotated[
    dict[str, int | float | str],
    BeforeValidator(_finite),
    PlainSerializer(_within, return_type=dict[str, int | float | str]),
    WithJsonSchema({"type": "object", "maxProperties": METRICS_MAX, "x-kubernetes-preserve-unknown-fields": True}),
]


class Condition(StatusModel):
    """A condition as Kubernetes defines it (metav1.Condition)."""

    type: Word
    status: Word
    reason: Word
    message: ShortSentence = ""
    last_transition_time: Timestamp
    observed_generation: int = Field(default=0, ge=0)


class ProfileStatus(StatusModel):
    """What the job's profile stood for when the job was first seen."""

    name: NameOfObject
    kind: Word
    """TrainingProfile or ClusterTrainingProfile."""
    generation: int = Field(default=0, ge=0)
    spec: ProfileSpec


class PendingStatus(StatusModel):
    reason: Word
    """The dominant reason, one word."""
    message: Sentence
    """What was asked for, what there is, and what would change it."""
    since: Timestamp | None = None
    """When this reason began."""
    estimated_start: Timestamp | None = None
    """When it may start; earlier and later are equally likely. Simulated from all known run times."""
    latest_start: Timestamp | None = None
    """In nine of ten cases it has started by then."""
    position: int | None = None
    """Its place in the estimated order of starts; 1 is the next."""
    ahead: ShortSentence | None = None
    """Jobs that are estimated to start before it, and why."""
    starts_by: Timestamp | None = None
    """It starts by then at the latest, whatever jobs are submitted meanwhile. Mostly far later than the estimate."""
    starts_by_basis: ShortSentence | None = None
    """Assumptions behind `startsBy`. If `startsBy` is missing, the reason, and what would give one."""
    would_start_if: ShortSentence | None = None
    """The smallest change with which it would start at once."""
    change: Annotated[dict[str, Word], *entries(4)] | None = None
    """The same as fields to write: path (`spec.workers`) → its value as JSON; null removes it. Absent if something else
    than the job has to change.
    """
    evidence: Metrics = Field(default_factory=dict)
    """The figures behind the message."""


class CheckpointStatus(StatusModel):
    step: int | None = None
    at: Timestamp | None = None


class ProgressStatus(StatusModel):
    summary: Line = ""
    """One phrase for a table: `120/400 (30 %), 4m left`."""
    state: Word = ""
    """What the workers do: starting, staging (data), rendezvous, running (no step reported yet), training, saving.
    After the attempt: done, failed, or stopped if the job was asked to leave (stopping before).
    """
    step: int = 0
    """Steps made."""
    of: int = 0
    """Steps in total; 0 if the program has not said."""
    rate: float = 0.0
    """Steps per second."""
    percent: int | None = None
    remaining_seconds: int | None = None
    """Seconds until the last step at the present rate; absent if the number of steps is unknown."""
    metrics: Metrics = Field(default_factory=dict)
    """The latest values, averaged over the ranks."""
    last_checkpoint: CheckpointStatus | None = None
    """The newest complete checkpoint."""
    restarts: int = Field(default=0, ge=0)
    """How often the ranks of this attempt were started again in their pods."""
    collective: Word = ""
    """The chosen backend: nccl or gloo."""
    staging: StagingStatus | None = None
    observed_gpus: Annotated[
        dict[str, Annotated[tuple[Word, ...], *at_most(MAX_GPUS_PER_RANK)]], *entries(PER_RANK_MAX)
    ] = Field(default_factory=dict, alias="observedGpus")
    """Rank → UUIDs that its process really sees, for the first ranks."""
    memory_peak_mib: Annotated[dict[str, int], *entries(PER_RANK_MAX)] = Field(
        default_factory=dict, alias="memoryPeakMiB"
    )
    busy: bool | None = None
    """For a session: true if a kernel or another program computes; absent until its application listens."""
    last_activity: Timestamp | None = None
    """For a session: when it was last used."""
    warnings: Annotated[tuple[Line, ...], *at_most(WARNINGS_MAX, last=True)] = ()
    """What the worker noticed and could not correct."""
    updated_at: Timestamp | None = None


class SuggestionStatus(StatusModel):
    """How much GPU memory each worker needs, as measured."""

    memory_mib: int = Field(alias="memoryMiB", ge=0)
    """MiB to ask for: the peak and a quarter more, in whole GiB."""
    peak_mib: int = Field(default=0, alias="peakMiB", ge=0)
    """The most MiB that its processes had on one GPU."""
    basis: ShortSentence = ""
    """The job whose peak it is, or why nothing smaller is suggested."""
    at: Timestamp


class EvictionStatus(StatusModel):
    """The last eviction of the job; `done` once its GPUs were given back."""

    kind: Word
    """Why: preempted, reclaimed, moved, node lost …"""
    message: ShortSentence
    in_favour_of: Line | None = None
    """The job that gets the GPUs."""
    at: Timestamp
    done: bool = False


class ExitStatus(StatusModel):
    """How the last attempt ended, as the worker reports it."""

    attempt: int | None = None
    """Number of that attempt."""
    code: int
    """The exit code."""
    reason: Word
    """What it means."""
    message: Annotated[str, *cut_at(EXIT_MESSAGE_CHARS_MAX)] = ""
    rank: int | None = None
    """The first rank that failed by itself."""
    signal: int | None = None
    pod: NameOfObject | None = None
    """The pod of that rank. Its log has more."""
    node: NameOfObject | None = None
    tail: Annotated[tuple[str, ...], *lines_within(TAIL_LINES_MAX, TAIL_CHARS_MAX)] = ()
    """The last lines that the failing rank printed."""
    at: Timestamp | None = None


class EarlierExit(StatusModel):
    """How an earlier attempt ended. Its pods and their logs are gone."""

    attempt: int | None = None
    code: int
    reason: Word
    message: Annotated[str, *cut_at(EARLIER_MESSAGE_CHARS_MAX)] = ""
    rank: int | None = None
    tail: Annotated[tuple[str, ...], *lines_within(EARLIER_TAIL_LINES_MAX, EARLIER_TAIL_CHARS_MAX)] = ()
    """The last lines that the failing rank printed."""
    at: Timestamp | None = None


class HeldStatus(StatusModel):
    """GPUs of the last attempt that has given them back."""

    gpu_class: Word = ""
    """Class of the GPUs; empty if unknown."""
    milli: int = Field(default=0, alias="milliGPU", ge=0)
    since: Timestamp
    until: Timestamp
    milli_gpu_seconds: int = Field(default=0, alias="milliGPUSeconds", ge=0)
    """Exact: the times are to the second."""


class UsageStatus(StatusModel):
    gpu_seconds: int = Field(default=0, ge=0)
    """GPUs × seconds held over all attempts. A share counts as its part."""
    gpu_milliseconds: int = Field(default=0, ge=0)
    """The same, exact."""
    lost_to_preemption_milliseconds: int = Field(default=0, ge=0)
    """The part of it that evictions for other jobs threw away: work after the last checkpoint."""
    lost_to_faults_milliseconds: int = Field(default=0, ge=0)
    """The part of it that faults threw away, including the program's own: work after the last checkpoint."""
    last_held: HeldStatus | None = None
    """The last finished attempt, from which a new leader knows what budgets were not charged for yet."""
    run_seconds: int = Field(default=0, ge=0)
    """How long its workers ran, over all finished attempts. This counts against `maxRuntime`."""


class ExcludedNode(StatusModel):
    node: NameOfObject
    until: Timestamp
    reason: Annotated[str, *cut_at(64)] = ""


class EvaluatorStatus(StatusModel):
    """The evaluator's pod of the last attempt."""

    state: Annotated[str, *cut_at(32)] = ""
    """Starting, Running, Restarting (it failed, and is started again after a pause), Ended (its program ended with 0),
    Stopped (the attempt is over)."""
    reason: Annotated[str, *cut_at(64)] = ""
    """Why it does not start, or how it failed last."""
    message: Annotated[str, *cut_at(EVALUATOR_MESSAGE_CHARS_MAX)] = ""
    """The same as a sentence."""
    restarts: int = Field(default=0, ge=0)
    """Times that its kubelet started it again in its pod."""
    pods: int = Field(default=0, ge=0)
    """Pods that were made of it in this attempt: more than one, if pods were lost."""
    retry_at: Timestamp | None = None
    """Before this time no other pod of it is made."""


class BlockedStart(StatusModel):
    """Attempts in a row that never ran: a pod was refused, or a container did not start. They cost nothing."""

    attempts: int = Field(ge=1)
    """Number of attempts in a row."""
    attempt: int = Field(ge=0)
    """Number of the last of them that cost nothing."""
    retry_at: Timestamp
    """When the job may start again, behind the jobs that wait by then. The pause grows with each such attempt."""
    generation: int = Field(default=0, ge=0)
    """Generation of the spec that was tried. An edit ends the pause."""


class TrainingJobStatus(StatusModel):
    phase: Phase | None = None
    """Where the job is in its life."""
    reason: Word | None = None
    """One word: why it waits, failed or was evicted."""
    message: Sentence | None = None
    """The same as a sentence."""
    workers: Word | None = None
    """Workers that run or ran last; of a waiting job, those it asks for: `2`, `2-8`."""
    gpus: Word | None = None
    """What the job holds or last held, in short: `2 × 0.4`; of a waiting job, what it asks for."""
    conditions: Annotated[tuple[Condition, ...], *keyed_by("type"), *at_most(CONDITIONS_MAX)] = ()
    profile: ProfileStatus | None = None
    """What `spec.profile` stands for. It stays if the profile changes."""
    placement: PlacementStatus | None = None
    cluster: ClusterRun | None = None
    """Where the job is, if it was handed to another cluster, until it is back; after it ended there, for good."""
    pending: PendingStatus | None = None
    """Why it waits."""
    progress: ProgressStatus | None = None
    """How far it is, while it runs."""
    evaluator: EvaluatorStatus | None = None
    """With `spec.evaluator`: what its pod does. It changes nothing of what becomes of the job."""
    isolation: Isolation | None = None
    """What is enforced on the memory of its GPUs: `isolationLevels.memory`, for older readers."""
    isolation_levels: IsolationLevels | None = None
    """What is enforced on its GPUs, for each dimension: `{memory: Hard, compute: None}`."""
    usage: UsageStatus | None = None
    """What it has cost so far."""
    results: Metrics | None = None
    """Final metrics, averaged over the ranks."""
    attempts: int = Field(default=0, ge=0)
    """Number of attempts so far. The running one has this number."""
    failures: int = Field(default=0, ge=0)
    """Attempts that ended by a fault of the job. They count against `retries`."""
    faults: int = Field(default=0, ge=0)
    """Attempts that ended by a fault of the platform since the job last made progress. They are not charged, but their
    number is limited.
    """
    saved_at_fault: int | None = None
    """Step of the newest checkpoint at the last such fault. A newer one at the next fault means that the job makes
    progress.
    """
    restarts: int = Field(default=0, ge=0)
    """How often the job was started again, for any cause: attempts after the first, and starts of all ranks in their
    pods (`progress.restarts`).
    """
    last_exit: ExitStatus | None = None
    """How the last attempt ended."""
    suggestion: SuggestionStatus | None = None
    """For a job with a share: what it should ask for. With `spec.gpu.autoSize` its next attempt takes it."""
    earlier_exits: Annotated[tuple[EarlierExit, ...], *at_most(EARLIER_EXITS_MAX, last=True)] = ()
    """How the attempts before it ended, newest last."""
    eviction: EvictionStatus | None = None
    blocked_start: BlockedStart | None = None
    """Set if its last attempts never ran. The condition `StartBlocked` has the reason."""
    excluded_nodes: Annotated[tuple[ExcludedNode, ...], *at_most(EXCLUDED_NODES_MAX, last=True)] = ()
    """Nodes that failed to start it. They are avoided for a while."""
    started_at: Timestamp | None = None
    """When its workers first ran."""
    finished_at: Timestamp | None = None
    observed_generation: int = Field(default=0, ge=0)
