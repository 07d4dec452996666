"""One TrainingJob as it stands, and what is to be done about it: values that `reconcile` takes and returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cotenant.api.resources.gpunodes import Violation
from cotenant.api.resources.trainingjob_status import ProgressStatus, SuggestionStatus, TrainingJobStatus
from cotenant.api.resources.trainingjobs import TrainingJobSpec
from cotenant.controller.informers.job_memory import MeasuredPeak, UseFinding
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.pods.disruption import Disruption
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.isolation.gpu_isolation import UNVERIFIED, Verification
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, Undecided, classify
from cotenant.controller.manifests.attempt import pod_name
from cotenant.core.model.lifecycle import HOLDING, TERMINAL, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsObserved:
    """The pods of one job, and what is known of the nodes that they are on."""

    pods: tuple[PodRecord, ...] = ()
    """All of them, whatever the attempt."""
    gone: tuple[PodRecord, ...] = ()
    """Pods that had ended, and are not there any more, as they were last seen."""
    disruptions: Mapping[str, Disruption] = field(default_factory=dict)
    """Pods of the running attempt that are not there any more, as far as Kubernetes has given a reason; by name."""
    violations: Mapping[str, Violation] = field(default_factory=dict)
    """GPU memory used beyond a share, by uid of the pod."""
    causes: Mapping[str, str] = field(default_factory=dict)
    """uid of a pod that waits for its volumes or its network → cause, in the words of its kubelet."""
    unreachable_nodes: Mapping[str, float] = field(default_factory=dict)
    """Nodes whose kubelet does not answer, and since when: what runs there cannot be asked to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementObserved:
    """The committed placement beside what there is."""

    held_milli: int = 0
    """Milli-GPU that it holds."""
    gpu_class: str = ""
    """Of its GPUs; empty where that is not known."""
    error: str | None = None
    """Its error, such as no decision of the operator would have."""
    isolation: Verification = UNVERIFIED
    """What is enforced on its pods, by all that has been found of them, or what contradicts it."""
    sick_gpus: Mapping[str, str] = field(default_factory=dict)
    """GPU UUID → health, of those of its GPUs that their node wants drained."""
    creation_rejection: str | None = None
    """The API server refused one of the attempt's objects for good."""
    creation_refusal: str | None = None
    """The API server, or an admission webhook or policy, refused one of the attempt's objects for now."""
    creation_delay: str | None = None
    """Reason why its pods could not be made so far."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Everything about one job that its next step depends on."""

    record: JobRecord
    problem: str | None = None
    """Reason why the spec cannot be read."""
    missing_class: str = ""
    """PriorityClass of a job that holds GPUs, which is gone."""
    of_pods: PodsObserved = PodsObserved()
    of_placement: PlacementObserved = PlacementObserved()
    progress: ProgressStatus | None = None
    """Last answer of rank 0, when it is time to write it."""
    idle_since: float | None = None
    """Since when neither the step nor the GPUs have moved; None for a job without an idle timeout."""
    begun: bool = True
    """It has made a step or kept a GPU busy, as far as this leader has seen."""
    low_use: UseFinding | None = None
    """What its use of GPUs came to, where that is not in its status yet."""
    peak: MeasuredPeak | None = None
    """The most GPU memory that it needed, where its status knows less."""
    of_another: SuggestionStatus | None = None
    """Of a job that nothing was measured of: what is suggested to one like it."""
    now: float

    @property
    def status(self) -> TrainingJobStatus:
        return self.record.status

    @property
    def spec(self) -> TrainingJobSpec | None:
        """Spec of the job; None where it cannot be read, and `problem` has the reason.

        What stands against a job that waits, such as a PriorityClass that is gone, changes nothing for one that was
        admitted before.
        """
        waits = self.phase not in HOLDING and self.phase not in TERMINAL
        return self.record.job.spec if self.record.job and (self.problem is None or not waits) else None

    @property
    def phase(self) -> Phase:
        return self.record.phase

    @property
    def pods(self) -> tuple[PodRecord, ...]:
        return self.of_pods.pods

    @property
    def unreachable_nodes(self) -> Mapping[str, float]:
        return self.of_pods.unreachable_nodes

    @cached_property
    def gang(self) -> dict[int, PodRecord]:
        """Pods of the running attempt, by node rank."""
        number = self.status.attempts
        return {pod.worker.node_rank: pod for pod in self.pods if pod.worker and pod.worker.attempt == number}

    @property
    def ended(self) -> dict[int, PodRecord]:
        """Pods of the running attempt that have ended, also those that are not there any more, by node rank."""
        pods = {
            pod.worker.node_rank: pod for pod in self.of_pods.gone if pod.is_of(self.status.attempts) and pod.worker
        }
        both = pods | self.gang
        return {rank: both[rank] for rank in sorted(both) if both[rank].exit is not None}

    @cached_property
    def end(self) -> AttemptEnd | Undecided | None:
        """End of the running attempt, by the exits of its pods; None: it goes on."""
        return classify(self.gang, self.size, self.now) if self.size else None

    @property
    def all_up(self) -> bool:
        """Every pod of the gang is ready, or has ended already."""
        return len(self.gang) == self.size and all(pod.ready or pod.exit is not None for pod in self.gang.values())

    @property
    def stoppable(self) -> tuple[PodRecord, ...]:
        """Pods that may still run, or of which an added container does, and that were not asked to end yet."""
        return tuple(pod for pod in self.pods if (pod.held or pod.lingers) and not pod.deleting)

    @property
    def strays(self) -> tuple[PodRecord, ...]:
        """Pods of earlier attempts, ended ones too: their logs were there to read until now."""
        number = self.status.attempts
        return tuple(pod for pod in self.pods if pod.worker and pod.worker.attempt != number and not pod.deleting)

    @property
    def gpus_until(self) -> float:
        """Time until which the attempt had its GPUs: the end of its last pod, however much later it is looked at."""
        ends = [pod.exit.at for rank, pod in self.gang.items() if rank < self.nodes and pod.exit and pod.exit.at]
        return min(self.now, max(ends)) if len(ends) == self.nodes > 0 else self.now

    @property
    def workers(self) -> int:
        return self.status.placement.workers if self.status.placement else 0

    @property
    def nodes(self) -> int:
        """Number of pods with ranks."""
        return len(self.status.placement.nodes) if self.status.placement else 0

    @property
    def servers(self) -> int:
        return (self.status.placement.servers or 0) if self.status.placement else 0

    @property
    def size(self) -> int:
        """Number of pods of the gang: those of the ranks, then the parameter servers."""
        return self.nodes + self.servers

    def pod_name(self, node_rank: int) -> str:
        return pod_name(self.record.name, self.status.attempts, node_rank, nodes=self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventToRecord:
    """A Kubernetes Event about the job, recorded once its status is written."""

    reason: str
    message: str
    warning: bool = False
    once: bool = False
    """The same Event is not recorded again while the API server keeps it, an hour by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedDeletion:
    """Pods that were asked to end already, to be asked again with this grace period, and the Event that reports it."""

    pods: tuple[PodRecord, ...]
    grace_s: int
    event: EventToRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileResult:
    """One write of the status, and what follows from it."""

    status: TrainingJobStatus | None = None
    """None: nothing to write."""
    event: EventToRecord | None = None
    delete_pods: tuple[PodRecord, ...] = ()
    forced_deletions: tuple[ForcedDeletion, ...] = ()
    create_pods: bool = False
    """Pods of the placement are missing."""
    delete_job: bool = False
    requeue_at: float | None = None
    """Unix seconds: when the job is to be looked at again, whether anything has been observed or not."""

    @property
    def acts(self) -> bool:
        """There is something to write, to record, to delete or to make."""
        deletes = bool(self.delete_pods or self.forced_deletions) or self.delete_job
        return self.status is not None or self.event is not None or deletes or self.create_pods
