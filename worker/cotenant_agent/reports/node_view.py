"""One view of the node: samples, owners, health and quota of one poll as a value, for `node_status` and `metrics`.

`NodeObserver` has the state between polls; everything that it calls is a function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from cotenant_agent.enforcement import quota
from cotenant_agent.enforcement.attribution import OwnerKind, ProcessOwner
from cotenant_agent.gpus import health
from cotenant_agent.gpus.capabilities import Capabilities
from cotenant_agent.gpus.readings import GpuInventory, GpuProcess, GpuSample, XidEvent


@dataclass(frozen=True, slots=True)
class PodGpuUse:
    """What one pod, or everything outside pods (no UID), uses of one GPU."""

    pod_uid: str
    memory_mib: int
    foreign: bool
    """Not a pod that the operator made."""


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
    xids: Mapping[tuple[str, int], int]
    """(GPU UUID or nothing, code) → how often since the agent started."""


class NodeObserver:
    """Folds samples and events into views. One thread calls it."""

    def __init__(
        self,
        inventory: GpuInventory,
        capabilities: Capabilities,
        *,
        owner: Callable[[int], ProcessOwner],
        attributing: bool,
    ) -> None:
        self.inventory = inventory
        self.capabilities = capabilities
        self._owner, self._attributing = owner, attributing
        self._health = health.NodeHealth()
        self._excesses: quota.Excesses = {}
        self._uses: Mapping[str, tuple[PodGpuUse, ...]] = {}
        self._xids: Counter[tuple[str, int]] = Counter()

    def restore_cordons(self, reasons: Mapping[str, str], now: float, *, rebooted: bool) -> None:
        """Take over the cordons in the published status, once, at start."""
        cordons = dict(self._health.cordons)
        for uuid, reason in reasons.items():
            earlier = health.restored_cordons(reason, now, rebooted=rebooted)
            if earlier:
                cordons[uuid] = (*earlier, *cordons.get(uuid, ()))
        self._health = replace(self._health, cordons=cordons)

    def uncordon(self, gpu_uuids: Iterable[str]) -> None:
        self._health = health.uncordon(self._health, gpu_uuids)

    def set_slow_gpus(self, found: Mapping[str, str]) -> None:
        """Replace the slow GPUs: GPU UUID → a job's finding, as annotated on the GPUNode."""
        self._health = replace(self._health, slow=dict(found))

    def record_xid(self, xid: XidEvent) -> None:
        self._xids[(xid.uuid or "", xid.code)] += 1
        pods = [use.pod_uid for use in self._uses.get(xid.uuid or "", ()) if use.pod_uid]
        self._health = health.apply_xid(self._health, xid, self.inventory.gpus, pods)

    def observe(self, samples: Iterable[GpuSample], grants: Mapping[str, quota.PodQuota], now: float) -> NodeView:
        by_uuid = {sample.uuid: sample for sample in samples}
        for sample in by_uuid.values():
            self._health = health.apply_signs(self._health, sample.uuid, sample.signs, now)
        self._uses = {uuid: uses_by_pod(sample.processes, self._owner, grants) for uuid, sample in by_uuid.items()}
        usage = {
            quota.PodGpu(use.pod_uid, uuid): use.memory_mib
            for uuid, uses in self._uses.items()
            for use in uses
            if use.pod_uid
        }
        self._excesses, violations = quota.evaluate(self._excesses, usage, grants, now)
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
            xids=dict(self._xids),
        )

    def with_xids(self, view: NodeView) -> NodeView:
        """The same view, with the events since."""
        return replace(view, health=self._health, xids=dict(self._xids))


def uses_by_pod(
    processes: Iterable[GpuProcess], owner: Callable[[int], ProcessOwner], grants: Mapping[str, quota.PodQuota]
) -> tuple[PodGpuUse, ...]:
    """Sum the processes of one GPU by pod. Those that have ended are left out; pods without a grant are foreign."""
    total: dict[str, int] = {}
    for process in processes:
        found = owner(process.pid)
        if found.kind is OwnerKind.GONE:
            continue
        total[found.pod_uid] = total.get(found.pod_uid, 0) + (process.memory_mib or 0)
    return tuple(PodGpuUse(uid, mib, uid not in grants) for uid, mib in sorted(total.items()))
