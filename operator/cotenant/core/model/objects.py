"""The core's nouns, as frozen values. Amounts are integers, times are seconds.

Units: GPU compute in milli (1000 = one GPU), GPU memory in MiB, CPU in milli-CPU, host memory in MiB, `…_at` in Unix
seconds, `…_s` in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

JobKey: TypeAlias = str
"""`namespace/name`."""

WHOLE = 1000
"""One GPU in milli."""


class Sharing(StrEnum):
    """Jobs with which a job's GPUs may be shared."""

    NEVER = "Never"
    QUEUE = "Queue"
    ANY = "Any"


class Period(StrEnum):
    """The period of a budget, in UTC: a day, a week from Monday on, or a month."""

    DAY = "Day"
    WEEK = "Week"
    MONTH = "Month"


class TimeOrder(StrEnum):
    """Which job of equal priority goes first in a queue."""

    AGE = "Age"
    """The oldest."""
    LEAST_SERVICE = "LeastService"
    """The one that has had least GPU time, in levels. One that has had much may be evicted for one that has waited
    long."""
    PREDICTED = "Predicted"
    """The same, and inside a level the one that is predicted to need least, by what was learned of jobs like it."""


class TopologyMode(StrEnum):
    PREFERRED = "Preferred"
    REQUIRED = "Required"


Level: TypeAlias = str
"""Domains of the cluster: `node`, `rack` or `zone`."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Keep the gang inside one domain of this level."""

    level: Level
    mode: TopologyMode


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread the gang over domains of this level, which is lower than that of its topology, as evenly as possible."""

    level: Level
    mode: TopologyMode
    most: int = 1
    """Workers in one domain at most, where the mode is `Required`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """GPUs of one worker: `count` whole GPUs, or the same share of each of `count` GPUs of one node.

    A share names its memory either absolutely (`memory_mib`) or as a fraction of the GPU that it lands on
    (`memory_milli`). Compute that is not named follows memory.
    """

    count: int = 1
    memory_mib: int | None = None
    memory_milli: int | None = None
    compute_milli: int | None = None
    classes: tuple[str, ...] = ()
    """Order of preference; empty means any class, none preferred."""
    zones: tuple[str, ...] = ()
    sharing: Sharing = Sharing.QUEUE

    @property
    def is_share(self) -> bool:
        return self.memory_mib is not None or self.memory_milli is not None or self.compute_milli is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    uuid: str
    gpu_class: str
    memory_mib: int
    index: int
    healthy: bool = True
    peers: frozenset[str] = frozenset()
    """UUIDs on the same node that this GPU reaches by NVLink."""
    suspect: bool = False
    """A job found it far slower than its other GPUs. It is used only if no other place is as good."""
    whole_only: bool = False
    """It cannot be shared: who gets it gets all of it."""
    resource: str = ""
    """Extended resource under which the kubelet hands it out, such as `amd.com/gpu`: another kind of device, for
    other programs. Empty: a GPU of CUDA, which gets into a pod by its UUID."""
    missing_since: float | None = None
    """When its node stopped listing it. It is not healthy; its holder keeps it until it counts as lost."""


MANY_PODS: Final = 1 << 20
"""Places for pods on a node of which no limit is known."""
MUCH_SCRATCH: Final = 1 << 40
"""MiB of scratch space on a node of which no limit is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    gpus: tuple[Gpu, ...]
    cpu_milli: int
    """Allocatable, less what pods that are not ours have requested."""
    memory_mib: int
    pods: int = MANY_PODS
    """Pods that its kubelet takes, less those of others; pods of our placements are not subtracted."""
    scratch_mib: int = MUCH_SCRATCH
    """Allocatable ephemeral storage, less what pods that are not ours have requested."""
    zone: str = ""
    rack: str = ""
    ready: bool = True
    """Node Ready, agent heartbeat fresh, not cordoned."""
    unready_because: str = ""
    """A word or two for a message; empty if it is ready, or the reason is unknown."""
    shared_by_queues: bool = False
    """The administrator lets jobs of different queues with `sharing: Any` share one GPU here."""
    deleted: bool = False
    """Its Node object is gone. Jobs that hold something here have lost it; they are counted until they have left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedGpu:
    """Part of one GPU that one rank holds. A whole GPU is all of both dimensions."""

    uuid: str
    memory_mib: int
    compute_milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlacement:
    rank: int
    gpus: tuple[GrantedGpu, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlacement:
    """All ranks of one job on one node: one pod."""

    node: str
    ranks: tuple[RankPlacement, ...]

    @property
    def uuids(self) -> frozenset[str]:
        """Its GPUs."""
        return frozenset(gpu.uuid for rank in self.ranks for gpu in rank.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Ordered: rank 0 is the first rank of the first node. Ranks are contiguous from 0."""

    nodes: tuple[NodePlacement, ...]

    @property
    def workers_on(self) -> tuple[tuple[str, int], ...]:
        """(node, workers)."""
        return tuple((node.node, len(node.ranks)) for node in self.nodes)

    @property
    def workers(self) -> int:
        return sum(len(node.ranks) for node in self.nodes)


@dataclass(frozen=True, slots=True)
class VolumePlaces:
    """Nodes on which the claims of a job can be mounted, and that the selector of its namespace chooses."""

    nodes: frozenset[str] | None
    """None: any."""
    why: str = ""
    """For a message: `claim data is bound to volume disk in zone b`. Empty where any node will do."""
    one_node: str = ""
    """For a message: why all workers have to be on one node, and what to write. Empty: they need not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    key: JobKey
    uid: str
    namespace: str
    queue: str
    user: str = ""
    priority: int = 0
    priority_class: str = ""
    """Name of the PriorityClass that the priority is of; empty: a number of the job's own."""
    workers_min: int
    workers_max: int
    gpu: GpuRequest
    asked_memory_mib: int | None = None
    """GPU memory that the document asks for, if `gpu` may ask for less because less was measured to suffice."""
    cpu_milli: int = 0
    """Per worker."""
    memory_mib: int = 0
    """Per worker, host memory."""
    scratch_mib: int = 0
    """Per worker, ephemeral storage of its node."""
    chief_cpu_milli: int | None = None
    """Of rank 0; None: as every worker."""
    chief_memory_mib: int | None = None
    """Of rank 0, host memory; None: as every worker."""
    chief_scratch_mib: int | None = None
    """Of rank 0; None: as every worker."""
    added_memory_mib: int = 0
    """The part of `memory_mib`, and of the chief's, that the operator adds for its launcher: nobody asked for it."""
    topology: Topology | None = None
    spread: Spread | None = None
    distinct_gpus: bool = True
    """Ranks never share a physical GPU with each other (NCCL refuses that); false with `collective: gloo`."""
    submitted_at: float
    requeued_at: float | None = None
    """When it last began to wait again, after a run or a suspension. None: it has waited since its submission."""
    evicts_from: float | None = None
    """Until then nobody is evicted for it and nothing is reserved for it, because its last attempts never ran. None:
    no such time."""
    placement: Placement | None = None
    """Set: the job holds these GPUs (admitted, starting or running). Unset: it waits."""
    admitted_at: float | None = None
    backfilled_until: float | None = None
    """Set if it was backfilled on GPUs reserved for another job: when it declared to have ended."""
    last_checkpoint_at: float | None = None
    ran_s: int = 0
    """How long its workers ran in attempts that have ended."""
    preemptible: bool = True
    expected_runtime_s: int | None = None
    max_runtime_s: int | None = None
    excluded_nodes: frozenset[str] = frozenset()
    """Nodes that failed to start this job lately, or that an administrator moves it off."""
    only_nodes: frozenset[str] = frozenset()
    """Nodes to which an administrator moves it; empty: any."""
    volumes: VolumePlaces | None = None
    """None: its claims can be mounted anywhere."""
    move_asked: bool = False
    """An administrator asked for a move: if it lies outside `only_nodes`, on `excluded_nodes`, or on a class that its
    request does not name, it moves as soon as there is another place."""
    evicting: bool = False
    """Still holds its placement, but its eviction is under way."""
    idle: bool = False
    """It holds GPUs, but for minutes nothing computed on them and it made no step."""
    resizing_from: Placement | None = None
    """While a resize is under way: the placement before it. Its GPUs stay held until the workers have left them."""

    def host_amounts(self, ranks: Sequence[RankPlacement]) -> tuple[int, int, int]:
        """(milli-CPU, MiB of host memory, MiB of scratch space) of these ranks together."""
        chiefs = 1 if ranks and ranks[0].rank == 0 else 0
        equal, (cpu, memory, scratch) = len(ranks) - chiefs, self.chief_amounts
        return (
            equal * self.cpu_milli + chiefs * cpu,
            equal * self.memory_mib + chiefs * memory,
            equal * self.scratch_mib + chiefs * scratch,
        )

    @property
    def chief_amounts(self) -> tuple[int, int, int]:
        """(milli-CPU, MiB of host memory, MiB of scratch space) of rank 0."""
        cpu, memory, scratch = self.chief_cpu_milli, self.chief_memory_mib, self.chief_scratch_mib
        return (
            self.cpu_milli if cpu is None else cpu,
            self.memory_mib if memory is None else memory,
            self.scratch_mib if scratch is None else scratch,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What may be held of a class of GPUs in a zone. None for class or zone: any. None for a limit: there is none.

    Amounts in milli-GPU. A share counts with the larger of its two dimensions, rounded up.
    """

    gpu_class: str | None = None
    zone: str | None = None
    limit: int | None = None
    memory_limit_mib: int | None = None
    """GPU memory that may be held at once, whatever number of GPUs it lies on."""

    @property
    def scope(self) -> tuple[str | None, str | None]:
        return self.gpu_class, self.zone

    @property
    def limits(self) -> tuple[int | None, ...]:
        """In the order of `measure.Amounts`."""
        return self.limit, self.memory_limit_mib


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(Limits):
    """One line of a queue. Every line that matches a request must allow it. Without a limit of its own a line allows
    what can be borrowed from the tree."""

    guaranteed: int = 0
    lendable: int | None = None
    """Part of `guaranteed` that others may use while it is idle. None: all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLimit(Limits):
    """What one user may hold in a queue. It limits in addition to the quotas and grants nothing."""

    user: str | None = None
    """None: each user whom no other limit of the same class and zone names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingBounds:
    """Waiting jobs of one queue that take part in a cycle: how many, with how many workers and milli-GPU together."""

    jobs: int
    workers: int
    milli: int | None = None
    """None: as many as there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantQueue:
    name: str
    parent: str | None = None
    namespaces: frozenset[str] = frozenset()
    """Namespaces served, selectors already resolved."""
    unlabelled: frozenset[str] = frozenset()
    """Namespaces that it names and does not serve, because they are not labelled as a tenant's."""
    weight: int = 1
    quotas: tuple[Quota, ...] = ()
    user_limit: int | None = None
    """Milli-GPU that one user may hold in this queue: short for one of `user_limits` without a user, class and zone."""
    user_limits: tuple[UserLimit, ...] = ()
    """At most one for each user, class and zone."""
    budget_left: int | None = None
    """Milli-GPU-seconds left in the running period; None: no budget."""
    budget: int | None = None
    """Milli-GPU-seconds of the running period, with what the one before left over."""
    money_left: int | None = None
    """Micro-units of `currency` left in the running period; None: no budget in money."""
    money: int | None = None
    """Micro-units of the running period, with what the one before left over."""
    currency: str = ""
    budget_until: str = ""
    """End of the running period, for a message: `2026-01-01T00:00Z`."""
    consolidation: bool = False
    """Jobs of this queue may be moved (evict → resume) for a job that otherwise cannot start."""
    protected_runtime_s: int = 0
    """A job of this queue is not evicted for another before it has run this long, nor before the policy's time."""
    max_priority: int | None = None
    """Highest priority of its jobs and of those below it. None: see `priority_bounds`."""
    min_priority: int | None = None
    pending: PendingBounds | None = None
    """Bounds for its own jobs, not for those of queues below. None: no bounds."""
    hold: str = ""
    """If not empty, no job of this queue or of queues below it may start or grow, and this says why. Running jobs go
    on."""
    half_life_s: int | None = None
    """Half-life of past borrowing in the whole tree below. Only read on roots; None: the operator's setting."""
    order: TimeOrder = TimeOrder.AGE
    """Of the whole tree below. Read on roots."""
    deleted: bool = False
    """It is gone, and jobs still hold GPUs in its name: see `deleted_queues`."""
