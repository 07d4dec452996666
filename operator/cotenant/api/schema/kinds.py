"""The kinds of the API: their names, scopes and columns of `kubectl get`, from which their CRDs are generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cotenant.api.resources.bookings import Booking, BookingStatus
from cotenant.api.resources.gpunodes import GPUNode, GPUNodeStatus
from cotenant.api.resources.queue_status import LocalQueue, LocalQueueStatus, QueueStatus
from cotenant.api.resources.queues import Queue
from cotenant.api.resources.quota_requests import QuotaRequest, QuotaRequestStatus
from cotenant.api.resources.remote_clusters import RemoteCluster, RemoteClusterStatus
from cotenant.api.resources.sessions.session import Session
from cotenant.api.resources.sessions.session_status import SessionStatus
from cotenant.api.resources.sweeps.sweep import Sweep
from cotenant.api.resources.sweeps.sweep_status import SweepStatus
from cotenant.api.resources.training_profiles import ClusterTrainingProfile, ProfileObjectStatus, TrainingProfile
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.validation.rules import Model, StatusModel


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Shown with `-o wide` only."""

    def document(self) -> dict[str, Any]:
        priority = {"priority": 1} if self.wide else {}
        return {"name": self.name, "type": self.type, "jsonPath": self.path, **priority}


@dataclass(frozen=True, slots=True)
class CustomResource:
    model: type[Model]
    status: type[StatusModel]
    short: tuple[str, ...]
    namespaced: bool
    columns: tuple[Column, ...]

    @property
    def kind(self) -> str:
        return self.model.__name__

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"


AGE = Column("Age", ".metadata.creationTimestamp", "date")
OF_A_PROFILE = (
    Column("Workers", ".spec.workers", "integer"),
    Column("GPUs", ".spec.gpu.count", "integer"),
    Column("Fraction", ".spec.gpu.memoryFraction"),
    Column("Memory", ".spec.gpu.memory"),
    Column("Classes", ".spec.gpu.classes"),
    Column("Description", ".spec.description"),
    AGE,
)

RESOURCES = (
    CustomResource(
        model=TrainingJob,
        status=TrainingJobStatus,
        short=("tj",),
        namespaced=True,
        columns=(
            Column("Phase", ".status.phase"),
            Column("Queue", ".spec.queue"),
            Column("Workers", ".status.workers"),
            Column("GPUs", ".status.gpus"),
            Column("Progress", ".status.progress.summary"),
            Column("Reason", ".status.reason"),
            AGE,
            Column("Attempts", ".status.attempts", "integer", wide=True),
            Column("Isolation", ".status.isolation", wide=True),
            Column("Compute", ".status.isolationLevels.compute", wide=True),
            Column("Cluster", ".status.cluster.name", wide=True),
            Column("Message", ".status.message", wide=True),
        ),
    ),
    CustomResource(
        model=Queue,
        status=QueueStatus,
        short=("q",),
        namespaced=False,
        columns=(
            Column("Parent", ".spec.parent"),
            Column("Weight", ".spec.weight", "integer"),
            Column("Used", ".status.used"),
            Column("Borrowed", ".status.borrowed"),
            Column("Running", ".status.running", "integer"),
            Column("Pending", ".status.pending", "integer"),
            AGE,
            Column("Lent", ".status.lent", wide=True),
            Column("Share", ".status.share", wide=True),
            Column("Budget left", ".status.budget.left", wide=True),
            Column("Money left", ".status.budget.money.left", wide=True),
            Column("Budget ends", ".status.budget.projectedEnd", "date", wide=True),
        ),
    ),
    CustomResource(
        model=LocalQueue,
        status=LocalQueueStatus,
        short=("lq",),
        namespaced=True,
        columns=(
            Column("Guaranteed", ".status.guaranteed"),
            Column("Used", ".status.used"),
            Column("Borrowed", ".status.borrowed"),
            Column("Free", ".status.free"),
            Column("Used here", ".status.usedHere"),
            Column("Running", ".status.running", "integer"),
            Column("Pending", ".status.pending", "integer"),
            AGE,
            Column("Budget left", ".status.budget.left", wide=True),
            Column("Money left", ".status.budget.moneyLeft", wide=True),
            Column("Budget ends", ".status.budget.projectedEnd", "date", wide=True),
        ),
    ),
    CustomResource(
        model=GPUNode,
        status=GPUNodeStatus,
        short=("gn",),
        namespaced=False,
        columns=(
            Column("GPUs", ".status.summary"),
            Column("Health", ".status.health"),
            Column("Node", ".status.node"),
            Column("Driver", ".status.driverVersion"),
            Column("Isolation", ".status.isolation"),
            Column("Compute", ".status.isolationLevels.compute", wide=True),
            Column("Agent", ".status.writer.version", wide=True),
            Column("Simulated", ".status.simulated", "boolean"),
            Column("Heartbeat", ".status.heartbeat", "date"),
            AGE,
        ),
    ),
    CustomResource(
        model=QuotaRequest,
        status=QuotaRequestStatus,
        short=("qr",),
        namespaced=True,
        columns=(
            Column("Phase", ".status.phase"),
            Column("Queue", ".status.queue"),
            Column("Asked", ".status.asked"),
            Column("Until", ".spec.until"),
            Column("Granted until", ".status.granted.until"),
            Column("By", ".status.approval.by", wide=True),
            AGE,
            Column("Reason", ".spec.reason", wide=True),
            Column("Message", ".status.message", wide=True),
        ),
    ),
    CustomResource(
        model=Booking,
        status=BookingStatus,
        short=("bk",),
        namespaced=False,
        columns=(
            Column("Phase", ".status.phase"),
            Column("Queue", ".spec.queue"),
            Column("Class", ".spec.gpuClass"),
            Column("GPUs", ".spec.gpus", "integer"),
            Column("Start", ".spec.start"),
            Column("End", ".spec.end"),
            Column("Used", ".status.used"),
            AGE,
            Column("Granted", ".status.granted", "integer", wide=True),
            Column("Kept", ".status.kept", "integer", wide=True),
            Column("Message", ".status.message", wide=True),
        ),
    ),
    CustomResource(
        model=RemoteCluster,
        status=RemoteClusterStatus,
        short=("rc",),
        namespaced=False,
        columns=(
            Column("Reachable", ".status.reachable"),
            Column("Jobs", ".status.jobs", "integer"),
            Column("Running", ".status.running", "integer"),
            Column("Last seen", ".status.lastSeen", "date"),
            AGE,
            Column("Server", ".status.server", wide=True),
            Column("Message", ".status.message", wide=True),
        ),
    ),
    CustomResource(
        model=Sweep,
        status=SweepStatus,
        short=("sw",),
        namespaced=True,
        columns=(
            Column("Phase", ".status.phase"),
            Column("Algorithm", ".spec.algorithm"),
            Column("Trials", ".status.summary"),
            Column("Running", ".status.counts.running", "integer"),
            Column("Failed", ".status.counts.failed", "integer"),
            Column("Best", ".status.bestValue"),
            Column("Best job", ".status.best.job"),
            AGE,
            Column("Metric", ".spec.objective.metric", wide=True),
            Column("Stopped", ".status.counts.stopped", "integer", wide=True),
            Column("Message", ".status.message", wide=True),
        ),
    ),
    CustomResource(
        model=Session,
        status=SessionStatus,
        short=("ses",),
        namespaced=True,
        columns=(
            Column("Phase", ".status.phase"),
            Column("Application", ".spec.application"),
            Column("Queue", ".spec.queue"),
            Column("Reason", ".status.reason"),
            Column("Last activity", ".status.lastActivity", "date"),
            Column("Ends", ".status.endsAt"),
            AGE,
            Column("Suspends", ".status.suspendsAt", wide=True),
            Column("Message", ".status.message", wide=True),
        ),
    ),
    CustomResource(
        model=TrainingProfile,
        status=ProfileObjectStatus,
        short=("tp",),
        namespaced=True,
        columns=OF_A_PROFILE,
    ),
    CustomResource(
        model=ClusterTrainingProfile,
        status=ProfileObjectStatus,
        short=("ctp",),
        namespaced=False,
        columns=OF_A_PROFILE,
    ),
)
