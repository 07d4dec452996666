"""TrainingJob: the spec that a tenant writes, with its rules. Program and status are in modules of their own."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from cotenant.api.resources.checkpoints import Checkpoint
from cotenant.api.resources.object_meta import ObjectMeta
from cotenant.api.resources.placement_status import MAX_GPUS_PER_RANK, MAX_RANKS
from cotenant.api.resources.runtime import Resources, Runtime
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.api.scalars.amounts import Delay, DeviceMemory, Duration, Fraction, GracePeriod
from cotenant.api.scalars.fields import Bool, Int, Label, LabelValue, ObjectName, Str, cel_text, whole
from cotenant.api.validation.rules import Model, Rule, TransitionRule
from cotenant.core.model.objects import Sharing, TopologyMode

MAX_WORKERS = MAX_RANKS
MAX_GPUS = 2048
"""Of one job, for the reason that bounds its workers."""
MAX_GPUS_PER_WORKER = MAX_GPUS_PER_RANK
NAME = r"^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$"
"""Pods are called `<job>-<attempt>-<node rank>` and that is a host name, so a job's name leaves room for it."""


class GpuSpec(Model):
    """GPUs of one worker: whole ones by `count`, or a share of one by `memory` or `memoryFraction`."""

    count: Annotated[Int, Field(ge=1)] | None = None
    """Whole GPUs per worker, all on one node."""
    memory: DeviceMemory | None = None
    """A share of one GPU, by memory."""
    memory_fraction: Fraction | None = None
    """A share of one GPU, as a part of its memory."""
    compute_fraction: Fraction | None = None
    """Compute of the share. Default: in proportion to its memory."""
    classes: Annotated[tuple[LabelValue, ...], Field(max_length=16)] = ()
    """GPU classes that will do, best first; all workers get GPUs of one of them. Default: any."""
    zones: Annotated[tuple[LabelValue, ...], Field(max_length=16)] = ()
    """Zones that will do. Default: any."""
    sharing: Sharing = Sharing.QUEUE
    """Who else may have a share of the same GPUs: nobody, jobs of the same queue, or, on nodes where the administrator
    allows it, jobs of any queue that say Any as well."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "",
            "(has(self.count) ? 1 : 0) + (has(self.memory) ? 1 : 0) + (has(self.memoryFraction) ? 1 : 0) == 1",
            "gpu takes exactly one of count, memory and memoryFraction; for whole GPUs write `spec.gpu: {count: 1}`,"
            ' for a share `spec.gpu: {memoryFraction: "0.5"}` or `spec.gpu: {memory: "16Gi"}`',
            lambda it: [it.count, it.memory, it.memory_fraction].count(None) == 2,  # three ways to ask
        ),
        Rule(
            "count",
            f"self <= {MAX_GPUS_PER_WORKER}",
            f"count is per worker, and a worker is on one node: at most {MAX_GPUS_PER_WORKER}; for more add workers",
            lambda it: it.count is None or it.count <= MAX_GPUS_PER_WORKER,
            about_field=True,
        ),
        Rule(
            "computeFraction",
            "!has(self.computeFraction) || !has(self.count)",
            "computeFraction belongs to a share; a whole GPU has all of its compute: leave it out",
            lambda it: it.compute_fraction is None or it.count is None,
        ),
        Rule(
            "classes",
            "self.all(a, self.exists_one(b, a == b))",
            "a class appears twice; leave one of the two out",
            lambda it: len(set(it.classes)) == len(it.classes),
            about_field=True,
        ),
        Rule(
            "zones",
            "self.all(a, self.exists_one(b, a == b))",
            "a zone appears twice; leave one of the two out",
            lambda it: len(set(it.zones)) == len(it.zones),
            about_field=True,
        ),
    )


class TopologySpec(Model):
    """Keep all workers inside one node, rack or zone."""

    level: Literal["node", "rack", "zone"]
    """Inside one of which."""
    mode: TopologyMode = TopologyMode.PREFERRED
    """Required: rather wait than spread."""


class TrainingJobSpec(Model):
    queue: Label
    """The Queue that answers for the job; it must serve the job's namespace."""
    priority: Annotated[int, *whole(-1_000_000_000, 1_000_000_000)] | None = None
    """Order inside the queue, higher first; a higher one may preempt a lower. Default: 0."""
    priority_class_name: ObjectName | None = None
    """Take the priority of this PriorityClass instead."""
    suspend: Bool = False
    """True: hold the job back; a running one is asked to end (SIGTERM), has `gracePeriod` to save, and gives its GPUs
    up."""
    workers: Annotated[int, *whole(1, MAX_WORKERS)] = 1
    """Ranks of the job. They start together or not at all."""
    min_workers: Annotated[int, *whole(1, MAX_WORKERS)] | None = None
    """Elastic: the job may start with, and shrink to, this many workers. Default: all of them."""
    gpu: GpuSpec
    resources: Resources = Resources()
    topology: TopologySpec | None = None
    runtime: Runtime
    """What runs."""
    expected_runtime: Duration | None = None
    """How long the job is thought to take; others are told when they may start by it."""
    max_runtime: Duration | None = None
    """The job is ended as failed when it has run this long, evictions not counted."""
    idle_timeout: Duration | None = None
    """The job is ended as failed when it makes no step and its GPUs do nothing for this long. Before its first step or
    use of a GPU, while it imports and reads its data, it has ten minutes more."""
    grace_period: GracePeriod = 30
    """Time to save a checkpoint when the job has to leave. Where it is more than the cluster allows (10m, unless the
    administrator set another limit), the job has that."""
    checkpoint: Checkpoint | None = None
    retries: Annotated[int, *whole(0, 100)] = 0
    """How often it is started again after a fault of its own. Faults of the platform and evictions do not count."""
    ttl_after_finished: Delay | None = None
    """The job is deleted this long after it has finished. Default: kept."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "priorityClassName",
            "!(has(self.priority) && has(self.priorityClassName))",
            "priority and priorityClassName exclude each other; leave one of the two out",
            lambda it: it.priority is None or it.priority_class_name is None,
        ),
        Rule(
            "minWorkers",
            "!has(self.minWorkers) || self.minWorkers <= self.workers",
            "minWorkers must be at most workers: the job may run with from minWorkers to workers of them",
            lambda it: it.min_workers is None or it.min_workers <= it.workers,
        ),
        Rule(
            "workers",
            f"self.workers <= {MAX_GPUS // MAX_GPUS_PER_WORKER}"
            f" || self.workers * self.?gpu.?count.orValue(1) <= {MAX_GPUS}",
            f"workers × gpu.count is more than {MAX_GPUS}, the most GPUs of one job: its status has to name each of"
            " them; make several jobs",
            lambda it: it.gpu.count is None or it.workers * it.gpu.count <= MAX_GPUS,
        ),
        Rule(
            "runtime.tracking.tensorBoard",
            "!self.?runtime.?tracking.?tensorBoard.hasValue() || self.?checkpoint.?volume.hasValue()",
            "event files are kept in the checkpoint volume, else they go with the pod; write for example"
            " `spec.checkpoint.volume: {persistentVolumeClaim: {claimName: checkpoints}}`",
            lambda it: (
                it.runtime.tracking is None
                or it.runtime.tracking.tensor_board is None
                or (it.checkpoint is not None and it.checkpoint.volume is not None)
            ),
        ),
        Rule(
            "expectedRuntime",
            "!(has(self.expectedRuntime) && has(self.maxRuntime))"
            " || duration(self.expectedRuntime) <= duration(self.maxRuntime)",
            "expectedRuntime is longer than maxRuntime: the job would be ended before it is done; raise maxRuntime or"
            " leave it out",
            lambda it: it.expected_runtime is None or it.max_runtime is None or it.expected_runtime <= it.max_runtime,
        ),
    )

    @field_validator("workers", mode="before")
    @classmethod
    def _elastic_is_two_fields(cls, value: Any) -> Any:
        if isinstance(value, dict):
            raise ValueError("must be a whole number; for an elastic job write workers: <most> and minWorkers: <least>")
        return value


FIXED_FIELDS = (
    "queue",
    "workers",
    "gpu",
    "resources",
    "runtime",
    "gracePeriod",
    "minWorkers",
    "topology",
    "checkpoint",
)
"""Fields of a spec that stay as they are while its job holds GPUs, and after it has finished."""


def _had(path: str) -> str:
    return f"has(self.{path}) && has(oldSelf.{path})"


def _changed(path: str) -> str:
    return f"{_had(path)} && self.{path} != oldSelf.{path}"


def _same(path: str) -> str:
    return f"(has(self.{path}) ? has(oldSelf.{path}) && self.{path} == oldSelf.{path} : !has(oldSelf.{path}))"


_STATUS_WRITTEN = (
    f"{_had('status')} && ({_changed('status.phase')} || {_changed('status.message')}"
    f" || {_had('status.progress')} && {_changed('status.progress.summary')})"
)
"""True of nearly every write of a running job's status, and of no other write. It leaves the spec as it is, which need
not be compared then: that costs the API server several times as much as all its other rules."""
_HOLDS = (
    "has(oldSelf.status) && (has(oldSelf.status.placement)"
    " || has(oldSelf.status.phase) && oldSelf.status.phase in ['Succeeded', 'Failed'])"
)
_FIXED = "these cannot change while the job holds GPUs, nor after it has finished:"
_INSTEAD = "; set suspend: true, wait until its phase is Suspended, change them, and resume; or make a new job"


class TrainingJob(Model):
    """A data-parallel training job: a gang of workers, each with GPUs or a share of one, in a tenant's queue."""

    api_version: Literal["cotenant.dev/v1alpha1"]
    kind: Literal["TrainingJob"]
    metadata: ObjectMeta
    spec: TrainingJobSpec
    status: TrainingJobStatus = TrainingJobStatus()

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "metadata.name",
            f"self.metadata.name.matches({cel_text(NAME)})",
            "a job's name must start with a letter and have at most 50 lower-case letters, digits and '-': its pods are"
            " named after it, and that is their host name",
            lambda it: re.fullmatch(NAME, it.metadata.final_name) is not None,
        ),
    )
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = (
        TransitionRule(
            "spec",
            f"{_STATUS_WRITTEN} || !({_HOLDS}) || {' && '.join(_same(f'spec.{field}') for field in FIXED_FIELDS)}",
            f"{_FIXED} {', '.join(FIXED_FIELDS)}{_INSTEAD}",
            " + ".join(
                (f"'{_FIXED}'", *(f"({_same(f'spec.{f}')} ? '' : ' spec.{f}')" for f in FIXED_FIELDS), f"'{_INSTEAD}'")
            ),
        ),
        TransitionRule(
            "spec.suspend",
            "!has(oldSelf.status) || !has(oldSelf.status.phase) || !(oldSelf.status.phase in ['Succeeded', 'Failed'])"
            f" || {_same('spec.suspend')}",
            "the job has finished: there is nothing to suspend or to resume; to run it again make a new job",
        ),
    )

    @property
    def key(self) -> Str:
        return f"{self.metadata.namespace or 'default'}/{self.metadata.name}"
