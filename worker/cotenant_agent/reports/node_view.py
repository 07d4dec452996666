"""One look at the node: samples, owners, health, quota, put together as a value. `status` and `metrics` read it.

`Observer` is the agent's one piece of changing state; everything that it calls is a function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from cotenant_agent.enforcement import quota
from cotenant_agent.enforcement.attribution import Kind, Owner
from cotenant_agent.gpus import health
from cotenant_agent.gpus.capabilities import Capabilities
from cotenant_agent.gpus.readings import GpuProcess, Inventory, Sample, Xid


@dataclass(frozen=True, slots=True)
class PodUse:
    """What one pod, or everything outside pods (no UID), uses of one GPU."""

    pod_uid: str
    memory_mib: int
    foreign: bool
    """Not a pod that the operator made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    taken_at: float
    inventory: Inventory
    samples: Mapping[str, Sample]
    uses: Mapping[str, tuple[PodUse, ...]]
    """GPU UUID → who uses it, sorted by pod."""
    health: health.Health
    violations: tuple[quota.Violation, ...]
    grants: Mapping[str, quota.Grant]
    capabilities: Capabilities
    attributing: bool
    xids: Mapping[tuple[str, int], int]
    """(GPU UUID or nothing, code) → how often since the agent started."""


class Observer:
    """Folds samples and events into views. One thread calls it."""

    def __init__(
        self,
        inventory: Inventory,
        capabilities: Capabilities,
        *,
        owner: Callable[[int], Owner],
        attributing: bool,
    ) -> None:
        self.inventory = inventory
        self.capabilities = capabilities
        self._owner, self._attributing = owner, attributing
        self._health = health.Health()
        self._watch: quota.Watch = {}
        self._uses: Mapping[str, tuple[PodUse, ...]] = {}
        self._xids: Counter[tuple[str, int]] = Counter()

    def remember(self, reasons: Mapping[str, str], now: float, *, rebooted: bool) -> None:
        """What the published status says of GPUs, read once at start."""
        cordons = dict(self._health.cordons)
        for uuid, reason in reasons.items():
            earlier = health.remembered(reason, now, rebooted=rebooted)
            if earlier:
                cordons[uuid] = (*earlier, *cordons.get(uuid, ()))
        self._health = replace(self._health, cordons=cordons)

    def uncordon(self, gpu_uuids: Iterable[str]) -> None:
        self._health = health.uncordon(self._health, gpu_uuids)

    def reported_slow(self, found: Mapping[str, str]) -> None:
        """What stands on the GPUNode now: GPU UUID → a job's finding."""
        self._health = replace(self._health, slow=dict(found))

    def event(self, xid: Xid) -> None:
        self._xids[(xid.uuid or "", xid.code)] += 1
        pods = [use.pod_uid for use in self._uses.get(xid.uuid or "", ()) if use.pod_uid]
        self._health = health.after_xid(self._health, xid, self.inventory.gpus, pods)

    def look(self, samples: Iterable[Sample], grants: Mapping[str, quota.Grant], now: float) -> View:
        by_uuid = {sample.uuid: sample for sample in samples}
        for sample in by_uuid.values():
            self._health = health.after_signs(self._health, sample.uuid, sample.signs, now)
        self._uses = {uuid: uses_of(sample.processes, self._owner, grants) for uuid, sample in by_uuid.items()}
        usage = {
            quota.Holding(use.pod_uid, uuid): use.memory_mib
            for uuid, uses in self._uses.items()
            for use in uses
            if use.pod_uid
        }
        self._watch, violations = quota.step(self._watch, usage, grants, now)
        return View(
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

    def after_events(self, view: View) -> View:
        """The same look, with what events have said since."""
        return replace(view, health=self._health, xids=dict(self._xids))


def uses_of(
    processes: Iterable[GpuProcess], owner: Callable[[int], Owner], grants: Mapping[str, quota.Grant]
) -> tuple[PodUse, ...]:
    """Processes of one GPU, summed by pod. What ended meanwhile is left out; what nobody granted is foreign."""
    total: dict[str, int] = {}
    for process in processes:
        found = owner(process.pid)
        if found.kind is Kind.GONE:
            continue
        total[found.pod_uid] = total.get(found.pod_uid, 0) + (process.memory_mib or 0)
    return tuple(PodUse(uid, mib, uid not in grants) for uid, mib in sorted(total.items()))
