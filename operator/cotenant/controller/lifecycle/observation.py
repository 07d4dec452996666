"""One TrainingJob as observed, and what is to be done about it: the values that `reconcile` takes and returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from cotenant.api.resources.gpunodes import Violation
from cotenant.api.resources.trainingjob_status import ProgressStatus, SuggestionStatus, TrainingJobStatus
from cotenant.api.resources.trainingjobs import TrainingJobSpec
from cotenant.contract import Role
from cotenant.controller.informers.job_memory import MeasuredPeak, UseFinding
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.pods.disruption import Disruption
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.isolation.verification import UNVERIFIED, Verification
from cotenant.controller.lifecycle.failure_classification import AttemptEnd, Undecided, classify
from cotenant.controller.manifests.attempt import pod_name
from cotenant.core.model.lifecycle import HOLDING, TERMINAL, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsObserved:
    """The pods of one job, and facts about their nodes."""

    pods: tuple[PodRecord, ...] = ()
    """Pods of all attempts."""
    departed: tuple[PodRecord, ...] = ()
    """Pods that may still run although their objects were deleted, by the word of their nodes' agents."""
    gone: tuple[PodRecord, ...] = ()
    """Deleted pods that had ended, in their last state."""
    disruptions: Mapping[str, Disruption] = field(default_factory=dict)
    """Disruptions of deleted pods of the current attempt, by name of the pod, if Kubernetes gave a reason."""
    violations: Mapping[str, Violation] = field(default_factory=dict)
    """GPU memory used beyond a share, by uid of the pod."""
    causes: Mapping[str, str] = field(default_factory=dict)
    """uid of a pod that waits for its volumes or its network → cause, in the words of its kubelet."""
    unreachable_nodes: Mapping[str, float] = field(default_factory=dict)
    """Node whose kubelet does not answer → since when. Pods there cannot be asked to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementObserved:
    """The committed placement, and facts about it."""

    held_milli: int = 0
    """Milli-GPU that it holds."""
    gpu_class: str = ""
    """Class of its GPUs; empty if unknown."""
    error: str | None = None
    """Why the placement cannot come from a decision of the operator."""
    isolation: Verification = UNVERIFIED
    """Isolation that was verified on its pods, or what contradicts it."""
    sick_gpus: Mapping[str, str] = field(default_factory=dict)
    """GPU UUID → health of GPUs of the placement that have to be drained."""
    creation_rejection: str | None = None
    """Why the API server refused an object of the attempt for good."""
    creation_refusal: str | None = None
    """Why the API server, a webhook or a policy refused an object of the attempt for now."""
    creation_delay: str | None = None
    """Why its pods could not be made so far."""
    evaluator_refusal: str | None = None
    """Why the evaluator's pod could not be made when it was tried last."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Everything about one job that its next step depends on."""

    record: JobRecord
    problem: str | None = None
    """Why the spec cannot be read."""
    missing_class: str = ""
    """Name of the deleted PriorityClass of a job that holds GPUs."""
    missing_queue: str = ""
    """Name of the deleted Queue of a job that holds GPUs."""
    of_pods: PodsObserved = PodsObserved()
    of_placement: PlacementObserved = PlacementObserved()
    progress: ProgressStatus | None = None
    """Last answer of rank 0, if it is due to be written."""
    idle_since: float | None = None
    """Time of the last step or GPU activity; None for a job without an idle timeout."""
    begun: bool = True
    """True if this leader has seen the job make a step or keep a GPU busy."""
    low_use: UseFinding | None = None
    """Finding on its use of GPUs that the status does not show yet."""
    peak: MeasuredPeak | None = None
    """Its highest use of GPU memory, if that is higher than in the status."""
    of_another: SuggestionStatus | None = None
    """Suggestion of a job like this one, if nothing was measured of this one."""
    now: float

    @property
    def status(self) -> TrainingJobStatus:
        return self.record.status

    @property
    def spec(self) -> TrainingJobSpec | None:
        """Spec of the job; None if it cannot be read, in which case `problem` has the reason.

        An obstacle for a waiting job, such as a deleted PriorityClass, does not affect a job that was admitted before.
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
        """Pods of the running attempt, by node rank. An evaluator is none of the gang."""
        number = self.status.attempts
        return {pod.worker.node_rank: pod for pod in self.pods if pod.worker and pod.is_of(number) and pod.is_of_gang}

    @property
    def evaluator(self) -> PodRecord | None:
        """Pod of the running attempt's evaluator."""
        number = self.status.attempts
        return next((pod for pod in self.pods if pod.role is Role.EVALUATOR and pod.is_of(number)), None)

    @property
    def holders(self) -> tuple[PodRecord, ...]:
        """Pods that may still run and that the job's GPUs wait for: all but evaluators."""
        return tuple(pod for pod in self.pods if pod.held and pod.is_of_gang)

    @property
    def in_the_way(self) -> tuple[PodRecord, ...]:
        """Pods of earlier attempts that may still use GPUs of the placement, which a resize keeps."""
        placement = self.record.placement
        given = {(node.node, gpu) for node in placement.nodes for gpu in node.uuids} if placement else set()
        return tuple(
            pod for pod in self.holders
            if pod.is_before(self.status.attempts) and pod.worker and pod.worker.placement
            and any((pod.node, gpu) in given for gpu in pod.worker.placement.uuids)
        )  # fmt: skip

    @property
    def departed(self) -> tuple[PodRecord, ...]:
        """Pods of the running attempt that were deleted by force and may still use the GPUs of its placement."""
        there = {pod.uid for pod in self.pods}
        return tuple(pod for pod in self.of_pods.departed if pod.is_of(self.status.attempts) and pod.uid not in there)

    @property
    def outliving(self) -> tuple[PodRecord, ...]:
        """Pods without an object, as after a deletion by force, that may still run, and save, on nodes that answer."""
        return tuple(pod for pod in self.departed if pod.is_of_gang and pod.node not in self.unreachable_nodes)

    @property
    def ended(self) -> dict[int, PodRecord]:
        """Pods of the current attempt that have ended, including deleted ones, by node rank."""
        gone = [pod for pod in self.of_pods.gone if pod.is_of(self.status.attempts) and pod.is_of_gang]
        pods = {pod.worker.node_rank: pod for pod in gone if pod.worker}
        both = pods | self.gang
        return {rank: both[rank] for rank in sorted(both) if both[rank].exit is not None}

    @cached_property
    def known_gang(self) -> dict[int, PodRecord]:
        """Pods of the running attempt, and those that had succeeded before they were deleted. By node rank.

        An autoscaler removes a node whose last pod has ended, with the pod, while other ranks go on.
        """
        return {rank: pod for rank, pod in self.ended.items() if pod.exit and pod.exit.code == 0} | self.gang

    @cached_property
    def end(self) -> AttemptEnd | Undecided | None:
        """End of the current attempt, by the exits of its pods; None if it goes on."""
        return classify(self.known_gang, self.size, self.now) if self.size else None

    @property
    def all_up(self) -> bool:
        """True if every pod of the gang is ready or has ended."""
        return len(self.gang) == self.size and all(pod.ready or pod.exit is not None for pod in self.gang.values())

    @property
    def stoppable(self) -> tuple[PodRecord, ...]:
        """Pods to be asked to end: they may still run, or a container that was added to them does."""
        return tuple(pod for pod in self.pods if (pod.held or pod.lingers) and not pod.deleting)

    @property
    def strays(self) -> tuple[PodRecord, ...]:
        """Pods of earlier attempts, including ended ones that were kept for their logs."""
        number = self.status.attempts
        return tuple(pod for pod in self.pods if pod.worker and pod.worker.attempt != number and not pod.deleting)

    @property
    def gpus_until(self) -> float:
        """Time until which the attempt held its GPUs: the end of its last pod, even if that was noticed later."""
        pods = self.known_gang.items()
        ends = [pod.exit.at for rank, pod in pods if rank < self.nodes and pod.exit and pod.exit.at]
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
        """Number of pods of the gang: pods of ranks, then pods of parameter servers."""
        return self.nodes + self.servers

    def pod_name(self, node_rank: int) -> str:
        return pod_name(self.record.name, self.status.attempts, node_rank, nodes=self.nodes, servers=self.servers)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventToRecord:
    """A Kubernetes Event about the job, recorded once its status is written."""

    reason: str
    message: str
    warning: bool = False
    once: bool = False
    """True if an equal Event is not recorded again while the API server keeps it (an hour by default)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedDeletion:
    """Pods to delete again with this shorter grace period, and the Event about it."""

    pods: tuple[PodRecord, ...]
    grace_s: int
    event: EventToRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileResult:
    """One write of the status, and the effects that follow it."""

    status: TrainingJobStatus | None = None
    """None: nothing to write."""
    event: EventToRecord | None = None
    more_events: tuple[EventToRecord, ...] = ()
    """Events beside `event`."""
    delete_pods: tuple[PodRecord, ...] = ()
    forced_deletions: tuple[ForcedDeletion, ...] = ()
    create_pods: bool = False
    """True if pods of the placement have to be made."""
    create_evaluator: bool = False
    """True if the evaluator's pod has to be made."""
    delete_job: bool = False
    clear_suspend_reason: bool = False
    """True if the annotation with the reason of a suspension that is over has to go."""
    requeue_at: float | None = None
    """Unix time of the next look at the job, even if nothing is observed before."""

    def with_event(self, event: EventToRecord | None) -> ReconcileResult:
        """The same step with one more Event. No Event hides another."""
        if event is None or self.event is None:
            return replace(self, event=event or self.event)
        return replace(self, more_events=(*self.more_events, event))

    @property
    def acts(self) -> bool:
        """True if there is something to write, to record, to delete or to make."""
        deletes = bool(self.delete_pods or self.forced_deletions) or self.delete_job
        makes = self.create_pods or self.create_evaluator
        return self.status is not None or self.event is not None or deletes or makes
