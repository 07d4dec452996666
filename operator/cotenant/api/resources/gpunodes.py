"""GPUNode: the GPUs of one node, as its agent finds them. Only the agent writes it; it has no spec."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from cotenant import names
from cotenant.api.resources.object_meta import ApiVersion, ObjectMeta
from cotenant.api.resources.placement_status import Isolation, IsolationLevels
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.fields import Timestamp, keyed_by
from cotenant.api.validation.rules import Model, StatusModel


class IsolationPath(StrEnum):
    """A way in which GPUs get into pods, or in which pods are limited to their shares."""

    RUNTIME_CLASS = "RuntimeClass"
    """The container runtime gives a pod the GPUs that it names."""
    MIG = "MIG"
    """The hardware keeps the instances of a GPU apart."""
    MEMORY_LIMIT = "MemoryLimit"
    """The driver refuses memory beyond a limit of the container's cgroup."""
    DEVICE_PLUGIN = "DevicePlugin"
    """The kubelet counts shares of each GPU that pods request by its name; before Kubernetes 1.36."""
    DEVICE_CLAIM = "DeviceClaim"
    """The kube-scheduler and the kubelet count GPUs by ResourceClaims, and the container gets the GPUs of its claim."""
    MPS_NAMESPACE = "MPS"
    """An MPS daemon for each shared GPU has a namespace for each claim, with the claim's share of compute as its
    ceiling.
    """
    EXTENDED_RESOURCE = "ExtendedResource"
    """The maker's device plugin hands out whole devices. The kubelet chooses which; Cotenant counts them."""


class PathCapability(StatusModel):
    path: Annotated[str, Field(json_schema_extra={"maxLength": 64})]
    """Name of the path. A newer agent may know more paths."""
    available: bool = False
    """True if new pods get it."""
    reason: str = ""
    """What is missing, if it is not available."""


class Capabilities(StatusModel):
    """What the node can do to keep jobs apart."""

    paths: Annotated[tuple[PathCapability, ...], *keyed_by("path")] = ()
    """Every path that the agent knows, with what is missing for unavailable ones."""

    runtime_class: bool = False
    """True if the nvidia runtime is set up."""
    cdi: bool = False
    """True if devices are available by CDI."""
    dmem: bool = False
    """True if the driver accounts memory by cgroup."""
    mps: bool = False
    """True if MPS limits shares of compute, as its path says."""


class GpuUse(StatusModel):
    memory_mib: int = Field(default=0, alias="memoryMiB")
    utilization_percent: int | None = None
    power_watts: int | None = None
    temperature_celsius: int | None = None


class GpuProcess(StatusModel):
    pod_uid: str = Field(alias="podUID")
    memory_mib: int = Field(default=0, alias="memoryMiB")


class ResetState(StrEnum):
    DONE = "Done"
    REFUSED = "Refused"
    """Somebody holds the GPU, or it cannot be reset."""
    FAILED = "Failed"
    """The driver did not reset it."""


class GpuReset(StatusModel):
    """Result of the last reset that an administrator asked for."""

    state: ResetState
    message: str = ""
    at: Timestamp


class GpuStatus(StatusModel):
    uuid: Annotated[str, Field(json_schema_extra={"maxLength": 64})]
    """Its length is bounded, because the placement of a job contains it."""
    index: int
    gpu_class: str = Field(alias="class")
    memory_mib: int = Field(alias="memoryMiB")
    """MiB of memory; 0 if the driver does not show it, as for memory shared with the CPU. Such a GPU is handed out
    whole.
    """
    healthy: bool = True
    """Only healthy GPUs are handed out."""
    health: str = ""
    """Why it is not healthy, or a warning: a GPU with `Slow: …` is handed out last."""
    drain: bool = False
    """True if it no longer computes, or computes wrong: the jobs on it, and no others, move to other GPUs."""
    peers: tuple[str, ...] = ()
    """UUIDs of GPUs that it reaches by NVLink."""
    mig: bool = False
    """True if it is partitioned by MIG and has no instances. Instances are listed instead of their GPU."""
    parent: str = ""
    """UUID of the GPU of which this is a MIG instance."""
    whole_only: bool = False
    """True if it cannot be shared: a job gets all of it."""
    resource: Annotated[str, Field(json_schema_extra={"maxLength": 317})] = ""
    """Extended resource under which the kubelet hands it out whole, such as `amd.com/gpu`. The UUID is then only a
    number: it does not say which device it is.
    """
    pci_bus_id: str = Field(default="", alias="pciBusId")
    used: GpuUse | None = None
    """Current use."""
    processes: tuple[GpuProcess, ...] = ()
    """Processes that use it."""
    reset: GpuReset | None = None
    """The last reset by hand: `kubectl cotenant gpus reset NODE GPU`."""


class Violation(StatusModel):
    """A pod that uses more of a GPU's memory than it was given."""

    pod_uid: str = Field(alias="podUID")
    uuid: str
    memory_mib: int = Field(alias="memoryMiB")
    quota_mib: int = Field(alias="quotaMiB")
    since: Timestamp


class Dimension(StrEnum):
    MEMORY = "Memory"
    """In MiB."""
    COMPUTE = "Compute"
    """In milli-GPU."""


class LimitState(StrEnum):
    """What the driver shows about a limit that a pod asked for."""

    IN_FORCE = "InForce"
    ABSENT = "Absent"
    """There is none."""
    UNKNOWN = "Unknown"
    """It cannot be read, or cannot be read yet."""


class DeviceLimit(StatusModel):
    """A limit that a pod asked for on one GPU, read back from the driver."""

    pod_uid: str = Field(alias="podUID")
    uuid: str
    dimension: Dimension
    wanted: int = Field(ge=0)
    """The limit that the pod's variables, or its claim, ask for."""
    state: LimitState
    in_force: int | None = Field(default=None, ge=0)
    """The limit in force, if there is one."""


class Evidence(StrEnum):
    """What shows that a pod holds its GPUs: it is bound and has not ended; or it has no Pod object any more, but
    processes of it run on the node or are on a GPU.
    """

    POD = "Pod"
    PROCESSES = "Processes"
    GPU = "GPU"


class HeldGpu(StatusModel):
    uuid: str
    memory_mib: int = Field(alias="memoryMiB")
    compute_milli: int = 0


class GpuHolder(StatusModel):
    """A pod of this node that holds GPUs until it is really gone."""

    pod_uid: str = Field(alias="podUID")
    namespace: str
    pod: str
    job: str
    job_uid: str = Field(alias="jobUID")
    attempt: int
    node_rank: int
    gpus: tuple[HeldGpu, ...] = ()
    since: Timestamp
    evidence: Evidence


class StrangerOnGpu(StatusModel):
    """A process that uses a GPU without a grant. The GPU is not handed out meanwhile."""

    pod_uid: str = Field(default="", alias="podUID")
    """Empty for processes outside pods."""
    uuid: str
    memory_mib: int = Field(default=0, alias="memoryMiB")
    reason: str = ""
    since: Timestamp


class Writer(StatusModel):
    """The agent that writes a GPUNode. Each node has one."""

    source: Annotated[str, Field(json_schema_extra={"maxLength": 1024})]
    """What it lists: `nvidia`, or extended resources separated by commas."""
    instance: Annotated[str, Field(json_schema_extra={"maxLength": 253})] = ""
    """Its pod's name."""
    version: Annotated[str, Field(json_schema_extra={"maxLength": 128})] = ""
    """Its release of Cotenant; empty if it does not say."""


class GPUNodeStatus(StatusModel):
    writer: Writer | None = None
    """Who writes this object. An agent of other devices on the same node does not write while this one is alive."""
    heartbeat: Timestamp | None = None
    """When the agent last wrote. A node that is silent for four times `heartbeatSeconds` gets no new jobs."""
    heartbeat_seconds: int = Field(default=names.HEARTBEAT_S, ge=1, le=600)
    """The agent writes at least this often: every 15 s, and less often in clusters of more than 1,500 GPUNodes."""
    simulated: bool = False
    """True for simulated GPUs, on a machine without real ones."""
    driver_version: str = ""
    toolkit_version: str = ""
    capabilities: Capabilities = Capabilities()
    isolation: Isolation = Isolation.NONE
    """The best level that this node can enforce on the memory of a pod's GPUs."""
    isolation_levels: IsolationLevels | None = None
    """The best level that this node can enforce, for each dimension."""
    conditions: Annotated[tuple[Condition, ...], *keyed_by("type")] = ()
    """`MemoryIsolationLowered` and `ComputeIsolationLowered`: true while the node enforces less than it did, with the
    reason. `GPUsUnreadable`: true while the agent cannot read the driver, or GPUs of its node, with the reason.
    """
    gpus: tuple[GpuStatus, ...] = ()
    """Every GPU of the node."""
    summary: str = ""
    """One phrase for a table: `2 × H100 80Gi`."""
    health: str = ""
    """One phrase for a table: `healthy`, or how many GPUs are ill (not handed out) or slow, and their codes."""
    node: str = ""
    """Whether the Node took pods of jobs in the last minute: `Ready`, `Cordoned`, `Tainted` or `NotReady`."""
    violations: tuple[Violation, ...] = ()
    """Pods that use more GPU memory than they were given."""
    limits: tuple[DeviceLimit, ...] = ()
    """Limits that pods asked for, as the driver has them."""
    holders: tuple[GpuHolder, ...] | None = None
    """Pods that hold GPUs of this node, also without a Pod object, until they are really gone. Absent if the agent does
    not look for them.
    """
    strangers: tuple[StrangerOnGpu, ...] = ()
    """Processes that use a GPU without a grant."""

    @property
    def stale_after_s(self) -> int:
        return names.HEARTBEATS_MISSED * self.heartbeat_seconds


class GPUNode(Model):
    """The GPUs of one node. Has the Node's name."""

    api_version: ApiVersion
    kind: Literal["GPUNode"]
    metadata: ObjectMeta
    status: GPUNodeStatus = GPUNodeStatus()
