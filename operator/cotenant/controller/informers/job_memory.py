"""What the controller remembers about one job beside its document. All of it may be lost, and is found again.

There is one `JobMemory` for each uid of a namespace. It is made on first use and dropped only by `JobMemories.drop`,
when neither the job nor a pod of it exists. No other map of the controller outside the object cache is keyed by job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cotenant import contract
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.informers.quarantine import Quarantine
from cotenant.controller.informers.volume_index import MountedClaim
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Action, Verdict
from cotenant.core.outlook.estimates import Estimate
from cotenant.decision_log.low_use import LowUse
from cotenant.decision_log.use_window import UseWindow


@dataclass(frozen=True, slots=True)
class CoreReading:
    """The job in the form of the core, or its error, and the inputs of both."""

    job: Job | None
    problem: str | None = None
    source: TrainingJob | None = None
    excluded_nodes: frozenset[str] = frozenset()
    priority_classes: Mapping[str, int] = field(default_factory=dict)
    mounted: tuple[MountedClaim, ...] = ()


@dataclass(slots=True)
class ObjectCreation:
    """Progress in making the objects of one attempt."""

    attempt: int
    side_objects_made: bool = False
    rejection: str | None = None
    """Reason why the attempt can never start."""
    refusal: str | None = None
    """Reason why the attempt cannot start now: one of its objects was refused."""
    delay: str | None = None
    """Reason why its pods could not be made so far."""
    counted: frozenset[str] = frozenset()
    """Amounts that the quotas of its namespace count, as a refusal told: its pods name them from then on."""


@dataclass(frozen=True, slots=True)
class ProgressSample:
    """Last answer of rank 0 of one attempt, and the time of its last new step."""

    attempt: int
    progress: contract.Progress
    step_changed_at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Time at which the step or a GPU of one attempt was last seen to move, in Unix seconds."""

    attempt: int
    at: float
    begun: bool = True
    """True once it has made a step, or kept a GPU busy. Before that it imports, and `at` is when it was first seen to
    run.
    """


@dataclass(frozen=True, slots=True)
class UseFinding:
    """A finding about the use of one attempt that differs from its status."""

    attempt: int
    kind: LowUse | None
    """None if the finding in the status no longer holds."""
    message: str


@dataclass(frozen=True, slots=True)
class MeasuredPeak:
    """The most GPU memory that the processes of one attempt had on one GPU, if its status has less."""

    attempt: int
    peak_mib: int
    needed_mib: int
    """The peak and a quarter more."""


@dataclass(frozen=True, slots=True)
class ExplainedStart:
    """A verdict with the estimated start in it, and its inputs."""

    verdict: Verdict
    estimate: Estimate
    ahead: str
    result: Verdict


@dataclass(slots=True)
class JobMemory:
    id: JobId
    reading: CoreReading | None = None
    orphaned: set[JobKey] = field(default_factory=set)
    """Keys under which the core counts those of its pods that no committed placement covers."""
    attempts: int = 0
    """The last attempt that is known to have been committed, even if the job is gone."""
    creation: ObjectCreation | None = None
    evaluator_creation: ObjectCreation | None = None
    """Of the evaluator's pod alone: it changes nothing of what becomes of the attempt."""
    unsettled: dict[str, PodRecord] = field(default_factory=dict)
    """Name → pod that the API server was asked to make, and that was not seen yet.

    It may exist, so it holds its GPUs whatever happens to the job.
    """
    pod_causes: Mapping[str, str] = field(default_factory=dict)
    """Uid of a pod that waits for volumes or network → the cause, in the kubelet's words."""
    progress: ProgressSample | None = None
    activity: Activity | None = None
    """Kept for a running job with an idle timeout."""
    use: UseWindow | None = None
    """How a running job used its GPUs in the last minutes."""
    use_finding: UseFinding | None = None
    """Kept until it is in the status."""
    peak: MeasuredPeak | None = None
    """Kept until it is in the status."""
    reported_slow_gpus: set[str] = field(default_factory=set)
    """UUIDs. Each is reported once, so that a mark that the administrator removed stays removed."""
    pending_written_at: float = 0.0
    """Time of the last write of the reason that it waits for, in Unix seconds."""
    shown: tuple[Verdict, JobRecord] | None = None
    """The verdict in the status of this record."""
    first_estimate: Estimate | None = None
    """The first estimate of its start that was published since it waits."""
    explained: ExplainedStart | None = None
    ungranted: Mapping[str, PodRecord] = field(default_factory=dict)
    """Uid → pod that names the job in a contract that no decision of this operator can have given it."""
    uncertain: Action | None = None
    """A commit without an answer. It is assumed to hold until the API server shows its state."""
    quarantine: Quarantine | None = None
    """Kept for a while after it is lifted."""
    given_back: int | None = None
    """Attempt of which nothing runs, although its placement stands in a status that cannot be written."""
    plan_missed: bool = False
    """True if a plan had an action for it while another write about it was in progress."""

    def is_quarantined(self, generation: int, now: float) -> bool:
        """True if the operator failed on the job and leaves a document of this generation alone now."""
        return self.quarantine is not None and self.quarantine.holds(generation, now)

    @property
    def reading_problem(self) -> str | None:
        """Reason why the core cannot work with its spec, as of the last sync."""
        return self.reading.problem if self.reading else None

    def creation_of(self, attempt: int) -> ObjectCreation | None:
        return self.creation if self.creation and self.creation.attempt == attempt else None

    def evaluator_refusal(self, attempt: int) -> str | None:
        """Why the pod of this attempt's evaluator could not be made when it was tried last."""
        creation = self.evaluator_creation
        if creation is None or creation.attempt != attempt:
            return None
        return creation.rejection or creation.refusal or creation.delay

    def progress_of(self, attempt: int) -> ProgressSample | None:
        return self.progress if self.progress and self.progress.attempt == attempt else None


class JobMemories:
    def __init__(self) -> None:
        self._by_owner: dict[tuple[str, str], JobMemory] = {}

    def __getitem__(self, job: JobId) -> JobMemory:
        """The memory of this job, empty at first."""
        memory = self._by_owner.get(job.owner)
        if memory is None:
            memory = self._by_owner[job.owner] = JobMemory(job)
        return memory

    def __iter__(self) -> Iterator[JobMemory]:
        return iter(self._by_owner.values())

    def __len__(self) -> int:
        return len(self._by_owner)

    def drop(self, job: JobId) -> None:
        """Forget a job that no longer exists, except what the core still counts of it."""
        memory = self._by_owner.get(job.owner)
        if memory is not None and not memory.orphaned and not memory.unsettled:
            del self._by_owner[job.owner]
