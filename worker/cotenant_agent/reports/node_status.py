"""Builds GPUNode.status and decides which parts must be written now. Pure: views in, dictionaries out.

Figures that always move (memory, utilization) are written with the heartbeat. Any other change is written at once:
health, violations, pods on a GPU, the inventory.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final

from cotenant import names
from cotenant.api.scalars.taints import TOLERATES_ALL, untolerated_taint
from cotenant_agent.enforcement import gpu_holders
from cotenant_agent.enforcement.quota import PodQuota
from cotenant_agent.gpus import gpu_resets, health
from cotenant_agent.gpus.readings import Gpu, GpuSample
from cotenant_agent.reports import published_limits, reset_turns
from cotenant_agent.reports.node_view import NO_MPS, NodeView

log = logging.getLogger("cotenant.agent")

HEARTBEATS_PER_S: Final = 100
"""Heartbeats of all agents together. In a cluster of more nodes, each agent writes them more rarely."""
STRANGERS_MAX: Final = 64
"""Strangers in one status. The GPUs of further ones are not handed out either."""
SHOWN_CODES_MAX: Final = 3
MIG_REASON: Final = "MigEnabled: partitioned by MIG and without instances; make some, or turn MIG off"
NOT_OFFERED: Final = "NotOffered: the device plugin has fewer healthy devices than this node had"
EXCLUSIVE: Final = (
    "Exclusive: its compute mode lets one process in at a time, so it is handed out whole; to share it, on the node:"
    " nvidia-smi --compute-mode=DEFAULT"
)


def format_time(at: float) -> str:
    """RFC 3339, whole seconds, as Kubernetes writes time."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(written: str) -> float:
    return datetime.fromisoformat(written).timestamp()


def build(view: NodeView) -> dict[str, Any]:
    found = view.capabilities
    gpus = [gpu_entry(view, gpu) for gpu in sorted(view.inventory.gpus, key=lambda gpu: gpu.index)]
    known: dict[str, Any] = {}
    if view.holders is not None:
        known["holders"] = [holder_entry(one) for one in gpu_holders.listed(view.holders)]
        limits = (*view.limits.limits, *view.compute.limits)
        known["limits"] = [published_limits.entry(one) for one in limits]
    levels = published_limits.levels(view)
    return known | {
        "heartbeat": format_time(view.taken_at),
        "simulated": view.inventory.simulated,
        "driverVersion": view.inventory.driver_version,
        "toolkitVersion": found.toolkit_version,
        "capabilities": {
            "runtimeClass": found.runtime_class,
            "cdi": found.cdi,
            "dmem": found.dmem,
            "mps": not published_limits.compute_missing(view),
            "paths": published_limits.paths(view),
        },
        "isolation": levels["memory"],
        "isolationLevels": levels,
        "summary": summary(view.inventory.gpus),
        "node": view.node_condition,
        "health": health_summary(gpus, view.inventory.unreadable),
        "gpus": gpus,
        "violations": [
            {
                "podUID": violation.pod_uid,
                "uuid": violation.gpu_uuid,
                "memoryMiB": violation.memory_mib,
                "quotaMiB": violation.quota_mib,
                "since": format_time(violation.since),
            }
            for violation in view.violations
        ],
        "strangers": [
            {
                "podUID": one.pod_uid,
                "uuid": one.gpu_uuid,
                "memoryMiB": one.memory_mib,
                "reason": one.reason,
                "since": format_time(one.since),
            }
            for one in view.strangers[:STRANGERS_MAX]
        ],
    }


def holder_entry(holder: gpu_holders.GpuHolder) -> dict[str, Any]:
    grant = holder.grant
    return {
        "podUID": grant.pod_uid,
        "namespace": grant.namespace,
        "pod": grant.pod,
        "job": grant.job,
        "jobUID": grant.job_uid,
        "attempt": grant.attempt,
        "nodeRank": grant.node_rank,
        "gpus": [
            {"uuid": uuid, "memoryMiB": mib, "computeMilli": grant.compute_milli.get(uuid, 0)}
            for uuid, mib in sorted(grant.quota_mib.items())
        ],
        "since": format_time(holder.since),
        "evidence": holder.evidence.value,
    }


def holders_in(status: Mapping[str, Any]) -> tuple[gpu_holders.GpuHolder, ...]:
    """The holders in a published status. Those that cannot be read are left out."""
    found = []
    for entry in status.get("holders") or ():
        try:
            found.append(_holder_in(entry))
        except (KeyError, TypeError, ValueError, AttributeError):
            log.warning("a holder in the published status cannot be read, and is left out: %.200r", entry)
    return tuple(found)


def _holder_in(entry: Mapping[str, Any]) -> gpu_holders.GpuHolder:
    grant = PodQuota(
        pod_uid=entry["podUID"],
        namespace=entry["namespace"],
        pod=entry["pod"],
        quota_mib={gpu["uuid"]: int(gpu["memoryMiB"]) for gpu in entry["gpus"]},
        compute_milli={gpu["uuid"]: int(gpu["computeMilli"]) for gpu in entry["gpus"]},
        job=entry["job"],
        job_uid=entry["jobUID"],
        attempt=int(entry["attempt"]),
        node_rank=int(entry["nodeRank"]),
    )
    evidence = gpu_holders.Evidence(entry["evidence"])
    return gpu_holders.GpuHolder(grant=grant, since=parse_time(entry["since"]), evidence=evidence)


def summary(gpus: Iterable[Gpu]) -> str:
    """One phrase for a table: `2 × H100 80Gi`."""
    kinds = Counter((gpu.gpu_class, round(gpu.memory_mib / 1024)) for gpu in gpus)
    sizes = {gib: f" {gib}Gi" if gib else "" for _, gib in kinds}
    return ", ".join(f"{count} × {name}{sizes[gib]}" for (name, gib), count in sorted(kinds.items())) or "no GPUs"


def health_summary(gpus: Iterable[Mapping[str, Any]], unreadable: Collection[str] = ()) -> str:
    """One phrase for a table: `2 of 8 ill: GpuLost`, `1 of 8 warned: Slow`, `1 more cannot be listed`, or `healthy`."""
    of_listed = _health_of_listed(gpus)
    if not unreadable:
        return of_listed
    before = "" if of_listed in {"", "healthy"} else f"{of_listed}; "
    return f"{before}{len(unreadable)} more cannot be listed"


def _health_of_listed(gpus: Iterable[Mapping[str, Any]]) -> str:
    entries = list(gpus)
    ill = [gpu for gpu in entries if not gpu["healthy"]]
    warned = [gpu for gpu in entries if gpu["healthy"] and gpu["health"]]
    codes = sorted({gpu["health"].partition(":")[0] for gpu in (ill or warned)})
    if not codes:
        return "healthy" if entries else ""
    more = f" and {len(codes) - SHOWN_CODES_MAX} more" if len(codes) > SHOWN_CODES_MAX else ""
    shown = ", ".join(codes[:SHOWN_CODES_MAX]) + more
    return f"{len(ill or warned)} of {len(entries)} {'ill' if ill else 'warned'}: {shown}"


def node_condition(node: Mapping[str, Any], tolerations: Collection[Mapping[str, Any]] = TOLERATES_ALL) -> str:
    """`Ready`, `Cordoned`, `Tainted` or `NotReady`: whether the Node takes worker pods with these tolerations."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    if not ready:
        return "NotReady"
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        return "Cordoned"
    return "Ready" if untolerated_taint(spec.get("taints") or (), tolerations) is None else "Tainted"


def unhealthy_reason(view: NodeView, gpu: Gpu) -> str:
    """Why a GPU is not handed out; empty if it is."""
    reason = MIG_REASON if gpu.mig else view.health.reason(gpu.uuid)
    reason = reason or gpu_holders.not_to_be_handed_out(view.holders or {}, view.strangers).get(gpu.uuid, "")
    if view.samples.get(gpu.uuid) is None and not reason:
        reason = NOT_OFFERED if gpu.resource else "NotSampled: the driver no longer lists this GPU"
    if gpu.uuid in view.resets.pending:
        reason = f"{reason}{health.SEPARATOR if reason else ''}{gpu_resets.PENDING}"
    return reason


def gpu_entry(view: NodeView, gpu: Gpu) -> dict[str, Any]:
    sample = view.samples.get(gpu.uuid)
    reason, reset = unhealthy_reason(view, gpu), view.resets.results.get(gpu.uuid)
    known: dict[str, Any] = {} if reset is None else {"reset": reset_turns.entry(reset, format_time(reset.at))}
    warning, exclusive = view.health.warning(gpu.uuid, view.taken_at), is_exclusive(view, sample)
    if exclusive:
        warning += f"{health.SEPARATOR if warning else ''}{EXCLUSIVE}"
    if gpu.resource or exclusive:
        known |= {"wholeOnly": True} | ({"resource": gpu.resource} if gpu.resource else {})
    return known | {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "class": gpu.gpu_class,
        "memoryMiB": gpu.memory_mib,
        "healthy": not reason,
        "drain": view.health.drains(gpu.uuid),
        "health": reason or warning,
        "peers": list(gpu.peers),
        "mig": gpu.mig,
        "parent": gpu.parent,
        "pciBusId": gpu.pci_bus_id,
        "used": live_use(sample),
        "processes": [{"podUID": use.pod_uid, "memoryMiB": use.memory_mib} for use in view.uses.get(gpu.uuid, ())],
    }


def is_exclusive(view: NodeView, sample: GpuSample | None) -> bool:
    """True if the GPU lets one process in at a time, and not because MPS is that process."""
    return sample is not None and bool(sample.exclusive) and view.no_compute == NO_MPS


def live_use(sample: GpuSample | None) -> dict[str, int]:
    """What the driver shows about one GPU. Values that it does not show are left out."""
    if sample is None:
        return {"memoryMiB": 0}
    watts = None if sample.power_milliwatts is None else round(sample.power_milliwatts / 1000)
    shown = {
        "utilizationPercent": sample.utilization_percent,
        "powerWatts": watts,
        "temperatureCelsius": sample.temperature_c,
    }
    return {"memoryMiB": sample.used_mib or 0} | {name: value for name, value in shown.items() if value is not None}


def without_usage(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without the figures that always move. A change of the rest is written at once."""
    still = {key: value for key, value in document.items() if key != "heartbeat"}
    still["gpus"] = [
        {key: value for key, value in gpu.items() if key not in {"used", "processes"}}
        | {"on": [process["podUID"] for process in gpu["processes"]]}
        for gpu in document["gpus"]
    ]
    still["strangers"] = [{key: value for key, value in one.items() if key in {"podUID", "uuid", "since"}}
                          for one in document["strangers"]]  # fmt: skip
    still["violations"] = [(v["podUID"], v["uuid"], v["since"]) for v in document["violations"]]
    return still


def heartbeat_interval(agents: int) -> int:
    """Seconds between two heartbeats of one agent, if there are so many."""
    return max(names.HEARTBEAT_S, ceil(agents / HEARTBEATS_PER_S))


def must_write(
    published: Mapping[str, Any] | None, document: Mapping[str, Any], since_last_s: float, interval_s: float
) -> bool:
    """True for the first document, after a change, and after `interval_s`."""
    return published is None or since_last_s >= interval_s or without_usage(published) != without_usage(document)


def patch(published: Mapping[str, Any] | None, document: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch: the top-level keys that changed, and always the heartbeat."""
    if published is None:
        return {"status": dict(document)}
    changed = {key: value for key, value in document.items() if published.get(key) != value}
    return {"status": changed | {"heartbeat": document["heartbeat"]}}
