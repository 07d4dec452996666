"""Paths, levels and limits in GPUNode.status: what the node can do, what holds, and what survives a restart. Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from cotenant_agent.enforcement.read_back import DeviceLimit, LimitsOfNode, LimitState
from cotenant_agent.gpus import capabilities
from cotenant_agent.reports.node_view import NodeView

log = logging.getLogger("cotenant.agent")

DISAGREED: Final = "ReadBack: "
"""Prefix of the reason that survives a restart of the agent."""
PATH_OF: Final = {"Memory": "MemoryLimit", "Compute": "MPS"}
"""Dimension → the path whose reason explains it."""


def levels(view: NodeView) -> dict[str, str]:
    """Dimension → the best level that is enforced here: `Hard` once a limit was read back."""
    if view.inventory.resource:
        return {"memory": "Cooperative", "compute": "None"}
    memory = capabilities.isolation(view.capabilities, simulated=view.inventory.simulated, attributing=view.attributing)
    able = not capabilities.memory_limit_missing(view.capabilities, view.inventory)
    compute = view.compute.verified and not (view.no_compute or view.inventory.simulated)
    return {
        "memory": "Hard" if able and view.limits.verified else memory,
        "compute": "Hard" if compute else "None",
    }


def paths(view: NodeView) -> list[dict[str, Any]]:
    """Every path, with everything that is missing for it."""
    if resource := view.inventory.resource:
        other = [f"the devices of this node are handed out by the kubelet, as {resource}"]
        others = [
            path_entry(path, other)
            for path in ("RuntimeClass", "MIG", "MemoryLimit", "DevicePlugin", "DeviceClaim", "MPS")
        ]
        return [*others, path_entry("ExtendedResource", ())]
    limits = capabilities.memory_limit_missing(view.capabilities, view.inventory)
    if view.limits.disagreement:
        limits = (f"{DISAGREED}{view.limits.disagreement}", *limits)
    return [
        path_entry("RuntimeClass", capabilities.runtime_class_missing(view.capabilities)),
        path_entry("MIG", capabilities.mig_missing(view.capabilities, view.inventory)),
        path_entry("MemoryLimit", limits),
        path_entry("DevicePlugin", [view.no_shares] if view.no_shares else []),
        path_entry("DeviceClaim", [view.no_claims] if view.no_claims else []),
        path_entry("MPS", compute_missing(view)),
        path_entry("ExtendedResource", ["GPUs of CUDA get into pods by their UUIDs"]),
    ]


def compute_missing(view: NodeView) -> tuple[str, ...]:
    """What keeps new pods of this node from MPS namespaces."""
    missing = (view.no_compute,) if view.no_compute else ()
    return (f"{DISAGREED}{view.compute.disagreement}", *missing) if view.compute.disagreement else missing


def path_entry(path: str, missing: Iterable[str]) -> dict[str, Any]:
    reason = "; ".join(missing)
    return {"path": path, "available": not reason, "reason": reason}


def read(status: Mapping[str, Any], dimension: Literal["Memory", "Compute"] = "Memory") -> LimitsOfNode:
    """Limits of one dimension in a published status. Entries that cannot be read are left out."""
    found = []
    for entry_of in status.get("limits") or ():
        try:
            found.append(_limit_in(entry_of))
        except (KeyError, TypeError, ValueError, AttributeError):
            log.warning("a limit in the published status cannot be read, and is left out: %.200r", entry_of)
    was_hard = (status.get("isolationLevels") or {}).get(dimension.lower()) == "Hard"
    mine = tuple(one for one in found if one.dimension == dimension)
    return LimitsOfNode(mine, verified=was_hard, disagreement=_disagreement_in(status, PATH_OF[dimension]))


def earlier(status: Mapping[str, Any]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Levels and conditions of a published status."""
    levels = {name: str(level) for name, level in (status.get("isolationLevels") or {}).items()}
    return levels, [dict(one) for one in status.get("conditions") or () if one.get("lastTransitionTime")]


def _limit_in(entry: Mapping[str, Any]) -> DeviceLimit:
    return DeviceLimit(
        pod_uid=entry["podUID"],
        gpu_uuid=entry["uuid"],
        wanted=int(entry["wanted"]),
        dimension="Compute" if entry["dimension"] == "Compute" else "Memory",
        state=LimitState(entry["state"]),
        in_force=None if entry.get("inForce") is None else int(entry["inForce"]),
    )


def _disagreement_in(status: Mapping[str, Any], of_path: str) -> str:
    for path in (status.get("capabilities") or {}).get("paths") or ():
        reason = str(path.get("reason") or "")
        if path.get("path") == of_path and reason.startswith(DISAGREED):
            return reason.removeprefix(DISAGREED).partition("; ")[0]
    return ""


def entry(limit: DeviceLimit) -> dict[str, Any]:
    found = {
        "podUID": limit.pod_uid,
        "uuid": limit.gpu_uuid,
        "dimension": limit.dimension,
        "wanted": limit.wanted,
        "state": limit.state.value,
    }
    return found if limit.in_force is None else found | {"inForce": limit.in_force}
