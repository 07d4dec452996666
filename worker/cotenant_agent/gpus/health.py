"""Cordons GPUs and lifts the cordons. Pure: events and signs in, cordons out. The table follows NVIDIA's XID catalogue.

A fault of a program never cordons a GPU, unless programs of different jobs of different tenants fault on the same GPU
(`Suspect`). NVML names no process, so an event counts only if exactly one pod is on the GPU. The event of a killed
program (XID 45) never counts.

A cordon comes at once and is lifted late. A sign must be good for some minutes. After an XID that needs a reset, the
driver must show that no recovery is due. A suspect waits for a day. A fault that the driver does not show waits for a
reboot or for the administrator (`cotenant.dev/uncordon` on the GPUNode).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from cotenant import names
from cotenant_agent.gpus.readings import Gpu, HealthSigns, XidEvent

SIGNS_GOOD_S: Final = 300.0
DRIVER_GOOD_S: Final = 600.0
THROTTLED_S: Final = 300.0
SEPARATOR: Final = " | "
FABRIC_DOWN: Final = "FabricDown"
FABRIC_TEXT: Final = (
    "its NVLink fabric is not set up, so programs of CUDA may end with error 802 (system not yet initialized); see that"
    " nvidia-fabricmanager runs on the node, in the driver's version"
)
SEEN_ON: Final = "seen on"
SUSPECT_JOBS, SUSPECT_TENANTS = 3, 2
SUSPECT_WINDOW_S: Final = 3600.0
SUSPECT_S: Final = 86_400.0
"""A suspect is handed out again after this time. A broken GPU will show itself again."""
CLEANED_UP: Final = 45
"""XID of a program that ended or was killed, also by the operator. It is no fault by itself."""


class XidScope(StrEnum):
    """How far an event reaches."""

    APP = "app"
    GPU = "gpu"
    PEERS = "peers"
    NODE = "node"


class ClearedBy(StrEnum):
    """What lifts a cordon."""

    SIGNS = "signs"
    DRIVER = "driver"
    MANUAL = "hand"
    TIME = "time"


GOOD_S: Final = {ClearedBy.SIGNS: SIGNS_GOOD_S, ClearedBy.TIME: SUSPECT_S}
"""For how long the lifting condition has to hold, except where it is `DRIVER_GOOD_S`."""


@dataclass(frozen=True, slots=True)
class XidRule:
    scope: XidScope
    text: str
    clears: ClearedBy = ClearedBy.DRIVER
    drains: bool = False
    """True if pods on that GPU have to leave, because it no longer computes or computes wrong."""


RESET: Final = "the GPU needs a reset"
XIDS: Final[Mapping[int, XidRule]] = {
    13: XidRule(XidScope.APP, "graphics engine exception in a program"),
    31: XidRule(XidScope.APP, "memory page fault in a program"),
    43: XidRule(XidScope.APP, "the GPU stopped processing a program"),
    45: XidRule(XidScope.APP, "a program was cleaned up after an earlier fault"),
    94: XidRule(XidScope.APP, "contained memory error: the program must restart"),
    109: XidRule(XidScope.APP, "a program kept the GPU from switching to another in time"),
    46: XidRule(XidScope.GPU, f"the GPU stopped processing; {RESET}", drains=True),
    48: XidRule(XidScope.GPU, f"double-bit memory error; {RESET}", drains=True),
    62: XidRule(XidScope.GPU, f"internal micro-controller halt; {RESET}", drains=True),
    63: XidRule(XidScope.GPU, "a memory row was remapped; it takes effect with a reset when the jobs are done"),
    64: XidRule(XidScope.GPU, f"a memory row could not be remapped; {RESET}", drains=True),
    74: XidRule(XidScope.PEERS, "NVLink error; check the link before multi-GPU jobs use it", ClearedBy.MANUAL),
    79: XidRule(
        XidScope.NODE, "the GPU has fallen off the bus; the node needs a reboot", ClearedBy.MANUAL, drains=True
    ),
    95: XidRule(XidScope.GPU, f"uncontained memory error; {RESET}", drains=True),
    110: XidRule(XidScope.GPU, f"security fault; {RESET}", drains=True),
    119: XidRule(XidScope.GPU, f"GSP firmware timeout; {RESET}", drains=True),
    120: XidRule(XidScope.GPU, f"GSP firmware error; {RESET}", drains=True),
    136: XidRule(XidScope.GPU, f"link training failed; {RESET}", drains=True),
    140: XidRule(XidScope.GPU, f"unrecovered memory error; {RESET}", drains=True),
    143: XidRule(XidScope.GPU, f"GPU initialisation error; {RESET}", drains=True),
    158: XidRule(XidScope.GPU, f"GPU fatal timeout; {RESET}", drains=True),
}
"""XID → its meaning. 109 comes of programs under load too, so NVIDIA's device plugin ignores it; if the GPU needs a
reset, the driver's recovery action says so. 154 (recovery action changed) is missing: the next poll reads that action.
"""

RECOVERY_ACTIONS: Final = {
    1: "reset the GPU",
    2: "reboot the node",
    3: "drain what uses peer-to-peer",
    4: "drain and reset the GPU",
    5: "recover the IMEX domain",
    6: "reset the bus",
    7: "reboot the system",
}


@dataclass(frozen=True, slots=True)
class Cordon:
    code: str
    text: str
    since: float
    clears: ClearedBy
    good_since: float | None = None
    drains: bool = False
    """True if pods on the GPU have to leave."""

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


@dataclass(frozen=True, slots=True)
class JobOnGpu:
    """Owner of a program. All attempts of a job count as one."""

    tenant: str
    job: str


@dataclass(frozen=True, slots=True)
class AppFault:
    gpu_uuid: str
    job: JobOnGpu
    at: float


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """The state of this node's GPUs between polls: cordons and the evidence for them."""

    cordons: Mapping[str, tuple[Cordon, ...]] = field(default_factory=dict)
    """GPU UUID → its cordons, oldest first."""
    faults: tuple[AppFault, ...] = ()
    throttled_since: Mapping[str, float] = field(default_factory=dict)
    fabric_down: frozenset[str] = frozenset()
    """UUIDs of GPUs whose NVLink fabric is not set up. It cordons nothing: there are drivers that set up none."""
    slow: Mapping[str, str] = field(default_factory=dict)
    """GPU UUID → what a job found, as the operator passes it on. It cordons nothing."""

    def reason(self, gpu_uuid: str) -> str:
        """The cordons of this GPU as text; empty if it takes new work."""
        return SEPARATOR.join(str(cordon) for cordon in self.cordons.get(gpu_uuid, ()))

    def drains(self, gpu_uuid: str) -> bool:
        """True if pods on this GPU have to leave."""
        return any(cordon.drains for cordon in self.cordons.get(gpu_uuid, ()))

    def warning(self, gpu_uuid: str, now: float) -> str:
        """What slows this GPU down without cordoning it; empty if nothing does."""
        since = self.throttled_since.get(gpu_uuid)
        found = [f"{names.HEALTH_SLOW}: {self.slow[gpu_uuid]}"] if gpu_uuid in self.slow else []
        if since is not None and now - since >= THROTTLED_S:
            found.append(f"Throttled: slowed down by heat or power for {int(now - since) // 60} min")
        if gpu_uuid in self.fabric_down:
            found.append(f"{FABRIC_DOWN}: {FABRIC_TEXT}")
        return SEPARATOR.join(found)


def apply_xid(
    health: NodeHealth,
    xid: XidEvent,
    gpus: Sequence[Gpu],
    pods: Iterable[str],
    jobs: Mapping[str, JobOnGpu] = MappingProxyType({}),
) -> NodeHealth:
    """Cordon the GPUs that an XID reaches. `pods` were on the GPU; `jobs` has the jobs of the operator's pods among
    them.

    An event without a GPU counts for all GPUs, as the driver means it. An event of a GPU counts for all its MIG
    instances.
    """
    rule = XIDS.get(xid.code)
    if rule is None:
        return health
    everywhere = [gpu.uuid for gpu in gpus]
    named = [gpu.uuid for gpu in gpus if xid.uuid is not None and xid.uuid in (gpu.uuid, gpu.parent)]
    own = named or everywhere
    if rule.scope is XidScope.APP:
        return _after_app_fault(health, xid, pods, jobs)
    peers = [peer for gpu in gpus if gpu.uuid in own for peer in gpu.peers]
    reached = {XidScope.GPU: own, XidScope.PEERS: own + peers, XidScope.NODE: everywhere}[rule.scope]
    text = rule.text if reached == own else f"{rule.text} ({SEEN_ON} {xid.uuid or 'an unnamed GPU'})"
    cordon = Cordon(f"XID{xid.code}", text, xid.at, rule.clears)
    cordons = _with(health.cordons, reached, cordon)
    if rule.drains:  # of an unnamed GPU nobody knows whom it has hit
        cordons = _with(cordons, named, replace(cordon, text=rule.text, drains=True))
    return replace(health, cordons=cordons)


def _after_app_fault(
    health: NodeHealth, xid: XidEvent, pods: Iterable[str], jobs: Mapping[str, JobOnGpu]
) -> NodeHealth:
    """Note the fault of the only pod on the GPU. One event counts as one fault at most."""
    candidates = set(pods)
    job = jobs.get(candidates.pop()) if len(candidates) == 1 else None
    if xid.uuid is None or xid.code == CLEANED_UP or job is None:
        return health
    recent = (*(f for f in health.faults if xid.at - f.at <= SUSPECT_WINDOW_S), AppFault(xid.uuid, job, xid.at))
    health = replace(health, faults=recent)
    victims = {f.job for f in recent if f.gpu_uuid == xid.uuid}
    if len(victims) < SUSPECT_JOBS or len({one.tenant for one in victims}) < SUSPECT_TENANTS:
        return health
    text = f"programs of {len(victims)} jobs of different tenants faulted on this GPU within an hour; check it"
    return replace(health, cordons=_with(health.cordons, [xid.uuid], Cordon("Suspect", text, xid.at, ClearedBy.TIME)))


def apply_signs(health: NodeHealth, gpu_uuid: str, signs: HealthSigns, now: float) -> NodeHealth:
    """Apply one poll of one GPU: add new cordons, and lift those whose lifting condition has held long enough."""
    bad = dict(_bad_signs(signs))
    kept = []
    for held in health.cordons.get(gpu_uuid, ()):
        good = held.code not in bad if held.clears is ClearedBy.SIGNS else _recovered(signs, held.clears, bad)
        cordon = replace(held, good_since=_first(held.good_since, now) if good else None)
        needed = GOOD_S.get(cordon.clears, DRIVER_GOOD_S)
        if cordon.good_since is None or now - cordon.good_since < needed:
            kept.append(cordon)
    known = {cordon.code for cordon in kept}
    kept += [
        Cordon(code, text, now, ClearedBy.SIGNS, drains=_sign_drains(code, signs))
        for code, text in bad.items()
        if code not in known
    ]
    cordons = {uuid: found for uuid, found in health.cordons.items() if uuid != gpu_uuid}
    if kept:
        cordons[gpu_uuid] = tuple(kept)
    throttled = dict(health.throttled_since)
    if signs.throttled:
        throttled.setdefault(gpu_uuid, now)
    else:
        throttled.pop(gpu_uuid, None)
    fabric_down = health.fabric_down - {gpu_uuid} | ({gpu_uuid} if signs.fabric_up is False else frozenset())
    return replace(health, cordons=cordons, throttled_since=throttled, fabric_down=fabric_down)


def _first(known: float | None, now: float) -> float:
    return now if known is None else known


def _bad_signs(signs: HealthSigns) -> Iterable[tuple[str, str]]:
    if signs.lost:
        yield "GpuLost", "the driver cannot reach the GPU; the node needs a reboot"
    if signs.reset_required:
        yield "ResetRequired", RESET
    if signs.unreadable:
        yield "Unreadable", f"the driver cannot read the GPU: {signs.unreadable}"
    if signs.recovery_action:
        what = RECOVERY_ACTIONS.get(signs.recovery_action, f"action {signs.recovery_action}")
        yield "RecoveryAction", f"the driver asks to {what}"
    if signs.remap_failed:
        yield "RemapFailed", "a memory row could not be remapped; the GPU should be replaced"
    if signs.prohibited:
        yield "Prohibited", "its compute mode lets no program in; on the node: nvidia-smi --compute-mode=DEFAULT"
    if signs.remap_pending:
        yield "RemapPending", "remapped or retired memory takes effect with a reset when the jobs are done"


DRAINING_ACTIONS: Final = frozenset({1, 2, 4, 6, 7})
"""Recovery actions after which nothing on this GPU can go on: all resets and reboots."""


def _sign_drains(code: str, signs: HealthSigns) -> bool:
    """True if the sign makes pods leave. A remapped row waits for them; a lost GPU or one to be reset does not."""
    return code in {"GpuLost", "ResetRequired", "RemapFailed"} or (
        code == "RecoveryAction" and signs.recovery_action in DRAINING_ACTIONS
    )


def _recovered(signs: HealthSigns, clears: ClearedBy, bad: Mapping[str, str]) -> bool:
    return clears is ClearedBy.TIME or (clears is ClearedBy.DRIVER and signs.recovery_action == 0 and not bad)


def uncordon(health: NodeHealth, gpu_uuids: Iterable[str]) -> NodeHealth:
    """Lift all cordons, as the administrator asked. A fault that persists comes back with the next poll."""
    lifted = set(gpu_uuids)
    return replace(
        health,
        cordons={uuid: found for uuid, found in health.cordons.items() if uuid not in lifted},
        faults=tuple(f for f in health.faults if f.gpu_uuid not in lifted),
    )


def after_reset(health: NodeHealth, gpu_uuids: Iterable[str]) -> NodeHealth:
    """Lift the cordons that a reset of these GPUs mends. Those that the administrator has to look at stay."""
    cordons = dict(health.cordons)
    for uuid in gpu_uuids:
        cordons[uuid] = tuple(one for one in cordons.get(uuid, ()) if one.clears is ClearedBy.MANUAL)
    return replace(health, cordons={uuid: found for uuid, found in cordons.items() if found})


def restored_cordons(reason: str, now: float, *, rebooted: bool) -> tuple[Cordon, ...]:
    """Cordons from the published text, so that a restart of the agent keeps them. Signs are read again.

    A reboot resets every GPU, so it lifts cordons that came from events. A drained GPU stays drained.
    """
    found = []
    for part in reason.split(SEPARATOR):
        code, _, text = part.partition(": ")
        rule = XIDS.get(int(code[3:])) if code.startswith("XID") and code[3:].isdigit() else None
        if rule is not None and rule.scope is not XidScope.APP and not rebooted:
            drains = rule.drains and f"({SEEN_ON} " not in text
            found.append(Cordon(code, text, now, rule.clears, drains=drains))
        elif code == names.HEALTH_DRAINED:
            found.append(Cordon(code, text, now, ClearedBy.MANUAL, drains=True))
        elif code == "Suspect" and not rebooted:
            found.append(Cordon(code, text, now, ClearedBy.TIME))
    return tuple(found)


def _with(
    cordons: Mapping[str, tuple[Cordon, ...]], reached: Iterable[str], cordon: Cordon
) -> dict[str, tuple[Cordon, ...]]:
    result = dict(cordons)
    for uuid in dict.fromkeys(reached):
        result[uuid] = (*(c for c in result.get(uuid, ()) if c.code != cordon.code), cordon)
    return result
