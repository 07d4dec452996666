"""One view of the node as a value: samples, owners, health and quota of one poll, for `node_status` and `metrics`.

`NodeObserver` keeps the state between polls. Everything that it calls is a function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cotenant_agent.enforcement import compute_limits, gpu_holders, memory_limits, quota
from cotenant_agent.enforcement.attribution import OwnerKind, ProcessOwner
from cotenant_agent.enforcement.read_back import LimitsOfNode
from cotenant_agent.gpus import health
from cotenant_agent.gpus.capabilities import Capabilities
from cotenant_agent.gpus.drains import drained
from cotenant_agent.gpus.gpu_resets import GpuResets
from cotenant_agent.gpus.readings import GpuInventory, GpuProcess, GpuSample, XidEvent

NOT_OFFERED: Final = (
    "GPUs are not offered by DRA: agent.dra.enabled of the chart is off, or the cluster has no resource.k8s.io/v1"
)
NO_MPS: Final = "nobody keeps daemons of MPS here: agent.mps.enabled of the chart is off"
NO_PLUGIN: Final = "the agent is no device plugin of the kubelet: agent.devicePlugin.enabled of the chart is off"


@dataclass(frozen=True, slots=True)
class PodGpuUse:
    """Use of one GPU by one pod, or by everything outside pods (no UID)."""

    pod_uid: str
    memory_mib: int
    foreign: bool
    """True if the operator did not make the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    taken_at: float
    inventory: GpuInventory
    samples: Mapping[str, GpuSample]
    uses: Mapping[str, tuple[PodGpuUse, ...]]
    """GPU UUID → its use by each pod, sorted by pod."""
    health: health.NodeHealth
    violations: tuple[quota.QuotaViolation, ...]
    grants: Mapping[str, quota.PodQuota]
    capabilities: Capabilities
    attributing: bool
    no_claims: str
    """Why pods cannot get GPUs of this node by ResourceClaims; empty if they can."""
    no_shares: str
    """Why the kubelet does not count shares of GPUs that pods request; empty if it does."""
    holders: gpu_holders.Holders | None
    """By uid of the pod; None before the pods of this node are known."""
    strangers: tuple[gpu_holders.StrangerOnGpu, ...]
    node_condition: str
    """Whether its Node takes pods; empty before the first look."""
    limits: LimitsOfNode
    claimed: gpu_holders.Usage
    """Uid of a pod → MiB of each GPU that its prepared ResourceClaims hold."""
    compute: LimitsOfNode
    """Shares of compute, as MPS shows them."""
    no_compute: str
    """Why new pods get no MPS namespace; empty if they do."""
    resets: GpuResets
    xids: Mapping[tuple[str, int], int]
    """(GPU UUID or empty, code) → number of events since the agent started."""
    sm_percent: quota.Usage
    """Part of each GPU's multiprocessors that processes of each pod use, if the driver shows it."""


class MpsSource:
    """What is known about MPS on this node, without waiting. Here it does not run."""

    def asked(self) -> tuple[compute_limits.AskedShare, ...]:
        return ()

    def readings(self) -> Mapping[str, compute_limits.DaemonReading]:
        """UUID of a GPU → reading. Every look makes a new object."""
        return {}

    def reason(self) -> str:
        return NO_MPS


class NodeObserver:
    """Folds samples and events into views. Must be called by one thread."""

    def __init__(
        self,
        inventory: GpuInventory,
        capabilities: Capabilities,
        *,
        owner: Callable[[int], ProcessOwner],
        attributing: bool,
        running: gpu_holders.RunningPods = lambda: None,
    ) -> None:
        self.claimed: Callable[[], gpu_holders.Usage] = dict
        """Uid of a pod → MiB of each GPU that its prepared ResourceClaims hold."""
        self.no_claims: Callable[[], str] = lambda: NOT_OFFERED
        self.no_shares: Callable[[], str] = lambda: NO_PLUGIN
        self.mps = MpsSource()
        self.inventory = inventory
        self.capabilities = capabilities
        self.node_condition = ""
        self._owner, self._attributing, self.running = owner, attributing, running
        self._health = health.NodeHealth()
        self._excesses: quota.Excesses = {}
        self._uses: Mapping[str, tuple[PodGpuUse, ...]] = {}
        self._holders: gpu_holders.Holders = {}
        self._strangers: tuple[gpu_holders.StrangerOnGpu, ...] = ()
        self._limits, self._compute = LimitsOfNode(), LimitsOfNode()
        self._mps_read: Mapping[str, compute_limits.DaemonReading] | None = None
        self._xids: Counter[tuple[str, int]] = Counter()

    def restore_cordons(self, reasons: Mapping[str, str], now: float, *, rebooted: bool) -> None:
        """Take over the cordons in the published status, once, at start."""
        cordons = dict(self._health.cordons)
        for uuid, reason in reasons.items():
            earlier = health.restored_cordons(reason, now, rebooted=rebooted)
            if earlier:
                cordons[uuid] = (*earlier, *cordons.get(uuid, ()))
        self._health = replace(self._health, cordons=cordons)

    def restore_holders(self, before: Iterable[gpu_holders.GpuHolder]) -> None:
        """Take over the holders in the published status, once, at start."""
        self._holders = {holder.grant.pod_uid: holder for holder in before} | dict(self._holders)

    def restore_limits(self, memory: LimitsOfNode, compute: LimitsOfNode) -> None:
        """Take over the results about limits from the published status, once, at start."""
        self._limits, self._compute = memory, compute

    def uncordon(self, gpu_uuids: Iterable[str]) -> None:
        """Lift cordons, and ask for limits again."""
        self._health = health.uncordon(self._health, gpu_uuids)
        self._limits, self._compute = LimitsOfNode(), LimitsOfNode()

    def drain(self, reasons: Mapping[str, str], now: float) -> None:
        """Take GPUs out of service: UUID → why."""
        self._health = drained(self._health, reasons, self.inventory.gpus, now)

    def note_reset(self, gpu_uuids: Iterable[str]) -> None:
        """Lift the cordons that a reset mends. A fault that persists comes back with the next poll."""
        self._health = health.after_reset(self._health, gpu_uuids)

    def set_slow_gpus(self, found: Mapping[str, str]) -> None:
        """Replace the slow GPUs: GPU UUID → a job's finding, as annotated on the GPUNode."""
        self._health = replace(self._health, slow=dict(found))

    def record_xid(self, xid: XidEvent) -> None:
        self._xids[(xid.uuid or "", xid.code)] += 1
        pods = [use.pod_uid for use in self._uses.get(xid.uuid or "", ()) if use.pod_uid]
        jobs = {
            uid: health.JobOnGpu(tenant=holder.grant.namespace, job=holder.grant.job_uid)
            for uid, holder in self._holders.items()
        }
        self._health = health.apply_xid(self._health, xid, self.inventory.gpus, pods, jobs)

    def observe(
        self,
        samples: Iterable[GpuSample],
        pods: gpu_holders.PodsOnNode | None,
        now: float,
        limits: memory_limits.Readings = (),
    ) -> NodeView:
        readings = self.mps.readings()
        servers = {one.server_pid for one in readings.values()}
        by_uuid = {sample.uuid: without(sample, servers) for sample in samples}
        for sample in by_uuid.values():
            self._health = health.apply_signs(self._health, sample.uuid, sample.signs, now)
        usage = usage_by_pod(by_uuid.values(), self._owner)
        if pods is not None:
            self._holders = gpu_holders.hold(self._holders, pods, usage, self.running, now)
            self._strangers = gpu_holders.strangers(self._strangers, usage, self._holders, now, self.claimed())
        grants = {uid: holder.grant for uid, holder in self._holders.items()}
        self._limits = memory_limits.evaluate(self._limits, grants, limits)
        occupants = {sample.uuid: occupants_of(sample, self._owner) for sample in by_uuid.values()}
        fresh, self._mps_read = readings is not self._mps_read, readings
        self._compute = compute_limits.evaluate(self._compute, self.mps.asked(), readings, occupants, fresh=fresh)
        self._uses = {uuid: uses_of(uuid, usage, grants) for uuid in by_uuid}
        in_pods = {on_gpu: mib for on_gpu, mib in usage.items() if on_gpu.pod_uid}
        self._excesses, violations = quota.evaluate(self._excesses, in_pods, grants, now)
        return NodeView(
            taken_at=now,
            inventory=self.inventory,
            samples=by_uuid,
            uses=self._uses,
            health=self._health,
            violations=violations,
            grants=grants,
            capabilities=self.capabilities,
            attributing=self._attributing,
            no_claims=self.no_claims(),
            no_shares=self.no_shares(),
            holders=None if pods is None else self._holders,
            strangers=tuple(one for one in self._strangers if one.polls >= gpu_holders.STRANGER_POLLS),
            node_condition=self.node_condition,
            limits=self._limits,
            claimed=self.claimed(),
            compute=self._compute,
            no_compute=self.mps.reason(),
            resets=GpuResets(),
            xids=dict(self._xids),
            sm_percent=sm_percent_by_pod(by_uuid.values(), self._owner),
        )

    def with_xids(self, view: NodeView) -> NodeView:
        """The same view, with the events since then."""
        return replace(view, health=self._health, xids=dict(self._xids))


def without(sample: GpuSample, pids: Collection[int]) -> GpuSample:
    """The sample without these processes, such as the MPS server, which works for its clients."""
    if not any(process.pid in pids for process in sample.processes):
        return sample
    return replace(sample, processes=tuple(one for one in sample.processes if one.pid not in pids))


def living(
    samples: Iterable[GpuSample], owner: Callable[[int], ProcessOwner]
) -> Iterator[tuple[quota.PodGpu, GpuProcess]]:
    """The processes on GPUs, each with its pod; an empty uid means outside pods. Those that have ended are left out."""
    for sample in samples:
        for process in sample.processes:
            if (found := owner(process.pid)).kind is not OwnerKind.GONE:
                yield quota.PodGpu(found.pod_uid, sample.uuid), process


def occupants_of(sample: GpuSample, owner: Callable[[int], ProcessOwner]) -> compute_limits.GpuOccupants:
    """Processes on one GPU, by uid of the pod."""
    found: dict[str, set[int]] = {}
    for on_gpu, process in living([sample], owner):
        found.setdefault(on_gpu.pod_uid, set()).add(process.pid)
    pids = {uid: frozenset(pids) for uid, pids in found.items()}
    return compute_limits.GpuOccupants(exclusive=sample.exclusive, pids_by_pod=pids)


def usage_by_pod(samples: Iterable[GpuSample], owner: Callable[[int], ProcessOwner]) -> dict[quota.PodGpu, int]:
    """MiB of the processes of each pod on each GPU."""
    total: Counter[quota.PodGpu] = Counter()
    for on_gpu, process in living(samples, owner):
        total[on_gpu] += process.memory_mib or 0
    return total


def sm_percent_by_pod(samples: Iterable[GpuSample], owner: Callable[[int], ProcessOwner]) -> dict[quota.PodGpu, int]:
    """Sums over the processes of each pod, without processes for which the driver shows nothing."""
    total: Counter[quota.PodGpu] = Counter()
    for on_gpu, process in living(samples, owner):
        if process.sm_percent is not None:
            total[on_gpu] = min(100, total[on_gpu] + process.sm_percent)
    return total


def uses_of(uuid: str, usage: quota.Usage, grants: Mapping[str, quota.PodQuota]) -> tuple[PodGpuUse, ...]:
    """Use of one GPU, sorted by pod. Pods without a grant are foreign."""
    here = sorted((on_gpu.pod_uid, mib) for on_gpu, mib in usage.items() if on_gpu.gpu_uuid == uuid)
    return tuple(PodGpuUse(uid, mib, uid not in grants) for uid, mib in here)
