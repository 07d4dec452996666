"""TrainingJob: the spec that a tenant writes, with its rules. Program and status are in modules of their own."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from cotenant.api.resources.job_spec.checkpoints import Checkpoint
from cotenant.api.resources.job_spec.chiefs import Chief
from cotenant.api.resources.job_spec.data import DATA_APART, DATA_IN_VOLUMES, MAX_DATA, StagedData
from cotenant.api.resources.job_spec.evaluators import Evaluator
from cotenant.api.resources.job_spec.machine import (
    MAX_GPUS_PER_WORKER,
    MAX_RANKS,
    SPREAD_BELOW_TOPOLOGY,
    GpuSpec,
    SpreadSpec,
    TopologySpec,
)
from cotenant.api.resources.job_spec.profile import gpu_left_to_profile
from cotenant.api.resources.job_spec.runtime import Resources, Runtime
from cotenant.api.resources.object_meta import ApiVersion, ObjectMeta
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.api.scalars.amounts import Delay, Duration, GracePeriod
from cotenant.api.scalars.fields import (
    NOT_FILLED_IN,
    PRIORITY_ONCE,
    Bool,
    Label,
    ObjectName,
    Priority,
    Str,
    keyed_by,
    name_rule,
    whole,
)
from cotenant.api.validation.rules import Model, Rule, TransitionRule


class Spillover(StrEnum):
    NEVER = "Never"
    AUTO = "Auto"
    ALWAYS = "Always"


MAX_WORKERS = MAX_RANKS
MAX_GPUS = 2048
"""GPUs of one job, limited for the same reason as its workers."""
NAME = r"^[a-z]([-a-z0-9]{0,48}[a-z0-9])?$"
"""Pods are called `<job>-<attempt>-<node rank>`, which is a host name, so a job's name leaves room for that."""


class TrainingJobSpec(Model):
    queue: Label
    """The Queue whose quota the job uses. It must serve the job's namespace."""
    priority: Priority | None = None
    """Order inside the queue, higher first. A higher one may preempt a lower. Default: 0."""
    priority_class_name: ObjectName | None = None
    """Take the priority of this PriorityClass instead."""
    suspend: Bool = False
    """True: do not run the job. If it runs, it is asked to end (SIGTERM), has `gracePeriod` to save, and gives its GPUs
    back.
    """
    profile: ObjectName | None = None
    """A TrainingProfile of the namespace, otherwise a ClusterTrainingProfile: defaults for `workers`, `minWorkers`,
    `gpu`, `resources`, `chief`, `topology`, `spread`, and for image, framework and parameter servers of the runtime.
    What it stood for when the job was first seen is in `status.profile`, and counts from then on.
    """
    workers_given: Annotated[int, *whole(1, MAX_WORKERS)] | None = Field(default=None, alias="workers")
    """Number of ranks. They start together or not at all. Default: 1, or that of the profile."""
    min_workers: Annotated[int, *whole(1, MAX_WORKERS)] | None = None
    """Elastic: the job may start with, and shrink to, this many workers. Default: all of them."""
    gpu_given: GpuSpec | None = Field(alias="gpu")
    """GPUs of each worker. It may be left out only with a profile that names them."""
    resources_given: Resources | None = Field(default=None, alias="resources")
    """CPU and memory of the node for each worker. Default: one CPU and 4Gi, or those of the profile."""
    chief: Chief | None = None
    """Rank 0 as a role of its own, with other CPU and memory than the other ranks. `{}` gives it the name alone."""
    topology: TopologySpec | None = None
    spread: SpreadSpec | None = None
    runtime: Runtime
    """What runs."""
    evaluator: Evaluator | None = None
    """A pod beside the ranks that measures what they save. `{}` runs the job's own program there."""
    data: Annotated[tuple[StagedData, ...], Field(max_length=MAX_DATA), *keyed_by("to")] = ()
    """Fetched from object stores before the workers start. COTENANT_DATA_DIR is the first of these folders."""
    expected_runtime: Duration | None = None
    """How long the job probably takes. Estimates of other jobs' starts use it."""
    max_runtime: Duration | None = None
    """The job fails after it has run this long, time between attempts not counted."""
    idle_timeout: Duration | None = None
    """The job fails after this time without a step or a busy GPU. Before its first step or use of a GPU, while it
    imports and reads its data, it has ten minutes more.
    """
    grace_period: GracePeriod = 30
    """Time to save a checkpoint when the job has to leave. The cluster's maximum (10m, unless the administrator set
    another) limits it.
    """
    checkpoint: Checkpoint | None = None
    retries: Annotated[int, *whole(0, 100)] = 0
    """How often it is started again after a fault of its own. Faults of the platform and evictions do not count."""
    ttl_after_finished: Delay | None = None
    """The job is deleted this long after it has finished. Default: never."""
    spillover: Annotated[Spillover, NOT_FILLED_IN] = Spillover.AUTO
    """Whether the job may run on another cluster that its queue names: `Never`; `Auto` (default), if it mounts and
    names nothing of its namespace; `Always`, if ConfigMaps, Secrets and claims of the same names exist there too.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        PRIORITY_ONCE,
        Rule(
            "minWorkers",
            "!has(self.minWorkers) || has(self.profile) && !has(self.workers)"
            " || self.minWorkers <= self.?workers.orValue(1)",
            "minWorkers must be at most workers: the job may run with from minWorkers to workers of them",
            lambda it: (
                it.min_workers is None
                or (it.profile is not None and it.workers_given is None)
                or it.min_workers <= it.workers
            ),
        ),
        Rule(
            "workers",
            f"self.?workers.orValue(1) <= {MAX_GPUS // MAX_GPUS_PER_WORKER}"
            f" || self.?workers.orValue(1) * self.?gpu.?count.orValue(1) <= {MAX_GPUS}",
            f"workers × gpu.count is more than {MAX_GPUS}, the most GPUs of one job: its status has to name each of"
            " them; make several jobs",
            lambda it: it.gpu_given is None or it.workers * (it.gpu_given.count or 1) <= MAX_GPUS,
        ),
        Rule(
            "evaluator",
            "!has(self.evaluator) || !self.runtime.rayTrain || has(self.evaluator.command)"
            " || has(self.evaluator.entrypoint)",
            "with rayTrain the job's program is a Ray Train driver, which an evaluator cannot run; write for example"
            ' `spec.evaluator.command: ["python", "evaluate.py"]`',
            lambda it: (
                it.evaluator is None
                or not it.runtime.ray_train
                or it.evaluator.command is not None
                or it.evaluator.entrypoint is not None
            ),
        ),
        SPREAD_BELOW_TOPOLOGY,
        DATA_APART,
        DATA_IN_VOLUMES,
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

    @property
    def workers(self) -> int:
        """Number of ranks; of a job with a profile, after that was filled in."""
        return 1 if self.workers_given is None else self.workers_given

    @property
    def resources(self) -> Resources:
        return Resources() if self.resources_given is None else self.resources_given

    @property
    def chief_resources(self) -> Resources:
        """What rank 0 asks for."""
        return self.resources if self.chief is None else self.chief.asked(self.resources)

    @property
    def gpu(self) -> GpuSpec:
        """GPUs of each worker. Raises ValueError if a profile that names them was not filled in yet."""
        if self.gpu_given is None:
            raise ValueError(f"spec.gpu comes from the profile {self.profile!r}, which has not been filled in")
        return self.gpu_given

    @classmethod
    def as_written(cls, data: Any) -> Any:
        return gpu_left_to_profile(super().as_written(data))

    @field_validator("workers_given", mode="before")
    @classmethod
    def _elastic_is_two_fields(cls, value: Any) -> Any:
        if isinstance(value, dict):
            raise ValueError("must be a whole number; for an elastic job write workers: <most> and minWorkers: <least>")
        return value


FIXED_FIELDS = (
    "queue",
    "profile",
    "workers",
    "gpu",
    "resources",
    "chief",
    "runtime",
    "evaluator",
    "data",
    "gracePeriod",
    "minWorkers",
    "topology",
    "spread",
    "checkpoint",
)
"""Fields of a spec that cannot change while its job holds GPUs, and after it has finished."""


def _had(path: str) -> str:
    return f"has(self.{path}) && has(oldSelf.{path})"


def _changed(path: str) -> str:
    return f"{_had(path)} && self.{path} != oldSelf.{path}"


def _same(path: str) -> str:
    if path == "spec.workers":  # what was stored before there were profiles has the default written in
        left_out = "orValue(has({}.spec.profile) ? 0 : 1)"
        now, before = (f"{it}.{path.replace('.', '.?')}.{left_out.format(it)}" for it in ("self", "oldSelf"))
        return f"({now} == {before})"
    return f"(has(self.{path}) ? has(oldSelf.{path}) && self.{path} == oldSelf.{path} : !has(oldSelf.{path}))"


_STATUS_WRITTEN = (
    f"{_had('status')} && ({_changed('status.phase')} || {_changed('status.message')}"
    f" || {_had('status.progress')} && {_changed('status.progress.summary')})"
)
"""True for nearly every write of a running job's status, and for no other write.

Such a write leaves the spec unchanged, so the spec need not be compared: that costs the API server several times as
much as all its other rules.
"""
_HOLDS = (
    "has(oldSelf.status) && (has(oldSelf.status.placement) || has(oldSelf.status.cluster)"
    " || has(oldSelf.status.phase) && oldSelf.status.phase in ['Succeeded', 'Failed'])"
)
_FIXED = "these cannot change while the job holds GPUs or is on another cluster, nor after it has finished:"
_INSTEAD = "; set suspend: true, wait until its phase is Suspended, change them, and resume; or make a new job"


class TrainingJob(Model):
    """A data-parallel training job: a gang of workers, each with GPUs or a share of one, in a tenant's queue."""

    api_version: ApiVersion
    kind: Literal["TrainingJob"]
    metadata: ObjectMeta
    spec: TrainingJobSpec
    status: TrainingJobStatus = TrainingJobStatus()

    RULES: ClassVar[tuple[Rule, ...]] = (
        name_rule(
            NAME,
            "a job's name must start with a letter and have at most 50 lower-case letters, digits and '-': its pods are"
            " named after it, and that is their host name",
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
