"""One job's situation as a value, and the step that it calls for: what `steps` reads and what it returns.

`world` puts the situation together from the mirror; `apply` carries the step out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.api.resources.gpunodes import Violation
from cotenant.api.resources.trainingjob_status import ProgressStatus, TrainingJobStatus
from cotenant.api.resources.trainingjobs import TrainingJobSpec
from cotenant.controller.informers.disruption import Disruption
from cotenant.controller.informers.pod_record import PodRecord
from cotenant.controller.manifests.attempt import pod_name
from cotenant.core.model.lifecycle import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything about one job that a step depends on."""

    name: str
    status: TrainingJobStatus
    spec: TrainingJobSpec | None
    """None: the spec cannot be read; `problem` says why."""
    problem: str = ""
    generation: int = 0
    deleting: bool = False
    pods: tuple[PodRecord, ...] = ()
    """All pods of this job, whatever the attempt."""
    disruptions: Mapping[str, Disruption] = field(default_factory=dict)
    """Pods of the running attempt that are not there any more, as far as Kubernetes has said why; by name."""
    held_milli: int = 0
    """What its placement holds, in milli-GPU."""
    violations: Mapping[str, Violation] = field(default_factory=dict)
    """By uid of the pod."""
    isolation_mismatch: str = ""
    """A rank sees other GPUs than it was granted."""
    idle_since: float | None = None
    """Set: nothing has moved since then."""
    progress: ProgressStatus | None = None
    """The latest news from rank 0, when it is time to write it."""
    placement_error: str = ""
    """What is wrong with its placement, as no decision of the operator would be."""
    creation_rejection: str = ""
    """The API server refused one of the job's objects for good."""
    creation_delay: str = ""
    """Why its pods could not be made so far."""
    dead_nodes: Mapping[str, float] = field(default_factory=dict)
    """Nodes whose kubelet does not answer, and since when: what runs there cannot be asked to end."""
    now: float

    @property
    def phase(self) -> Phase:
        return Phase(self.status.phase or Phase.PENDING)

    @property
    def gang(self) -> dict[int, PodRecord]:
        """Pods of the running attempt, by node rank."""
        number = self.status.attempts
        return {pod.worker.node_rank: pod for pod in self.pods if pod.worker and pod.worker.attempt == number}

    @property
    def stoppable(self) -> tuple[PodRecord, ...]:
        """Pods that may still run and were not asked to end yet."""
        return tuple(pod for pod in self.pods if pod.held and not pod.deleting)

    @property
    def strays(self) -> tuple[PodRecord, ...]:
        """Pods of earlier attempts, ended ones too: their logs were there to read until now."""
        number = self.status.attempts
        return tuple(pod for pod in self.pods if pod.worker and pod.worker.attempt != number and not pod.deleting)

    @property
    def gpus_until(self) -> float:
        """Until when the attempt had its GPUs: the end of its last pod, however much later somebody looks."""
        ends = [pod.exit.at for rank, pod in self.gang.items() if rank < self.nodes and pod.exit and pod.exit.at]
        return min(self.now, max(ends)) if len(ends) == self.nodes > 0 else self.now

    @property
    def workers(self) -> int:
        return self.status.placement.workers if self.status.placement else 0

    @property
    def nodes(self) -> int:
        """How many pods have ranks."""
        return len(self.status.placement.nodes) if self.status.placement else 0

    @property
    def servers(self) -> int:
        return (self.status.placement.servers or 0) if self.status.placement else 0

    @property
    def size(self) -> int:
        """How many pods the gang has: those of the ranks, then the parameter servers."""
        return self.nodes + self.servers

    def pod_name(self, node_rank: int) -> str:
        return pod_name(self.name, self.status.attempts, node_rank, nodes=self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventToRecord:
    """A Kubernetes Event about the job, said once its status is written."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileResult:
    status: TrainingJobStatus | None = None
    """None: nothing to write."""
    event: EventToRecord | None = None
    delete_pods: tuple[PodRecord, ...] = ()
    create_pods: bool = False
    """Pods of the placement are missing."""
    delete_job: bool = False
    requeue_at: float | None = None
