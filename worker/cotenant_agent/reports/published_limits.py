"""Paths, levels and limits in GPUNode.status: what the node can, what holds, and what outlives a restart. Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cotenant_agent.enforcement.memory_limits import DeviceLimit, LimitsOfNode, LimitState
from cotenant_agent.gpus import capabilities
from cotenant_agent.reports.node_view import NodeView

log = logging.getLogger("cotenant.agent")

DISAGREED: Final = "ReadBack: "
"""Begins the reason that outlives a restart of the agent."""


def levels(view: NodeView) -> dict[str, str]:
    """The best that is enforced here, by dimension: `Hard` once a limit that was asked for was read back."""
    memory = capabilities.isolation(view.capabilities, simulated=view.inventory.simulated, attributing=view.attributing)
    able = not capabilities.memory_limit_missing(view.capabilities, view.inventory)
    return {"memory": "Hard" if able and view.limits.verified else memory, "compute": "None"}


def paths(view: NodeView) -> list[dict[str, Any]]:
    """Every path, with all that is missing where it is not there."""
    limits = capabilities.memory_limit_missing(view.capabilities, view.inventory)
    if view.limits.disagreement:
        limits = (f"{DISAGREED}{view.limits.disagreement}", *limits)
    return [
        path_entry("RuntimeClass", capabilities.runtime_class_missing(view.capabilities)),
        path_entry("MIG", capabilities.mig_missing(view.capabilities, view.inventory)),
        path_entry("MemoryLimit", limits),
        path_entry("DeviceClaim", [view.no_claims] if view.no_claims else []),
    ]


def path_entry(path: str, missing: Iterable[str]) -> dict[str, Any]:
    reason = "; ".join(missing)
    return {"path": path, "available": not reason, "reason": reason}


def read(status: Mapping[str, Any]) -> LimitsOfNode:
    """What a published status has of limits; what cannot be read is left out."""
    found = []
    for entry_of in status.get("limits") or ():
        try:
            found.append(_limit_in(entry_of))
        except (KeyError, TypeError, ValueError, AttributeError):
            log.warning("a limit in the published status cannot be read, and is left out: %.200r", entry_of)
    was_hard = (status.get("isolationLevels") or {}).get("memory") == "Hard"
    return LimitsOfNode(tuple(found), verified=was_hard, disagreement=_disagreement_in(status))


def earlier(status: Mapping[str, Any]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Levels and conditions of a published status."""
    levels = {name: str(level) for name, level in (status.get("isolationLevels") or {}).items()}
    return levels, [dict(one) for one in status.get("conditions") or () if one.get("lastTransitionTime")]


def _limit_in(entry: Mapping[str, Any]) -> DeviceLimit:
    return DeviceLimit(
        pod_uid=entry["podUID"],
        gpu_uuid=entry["uuid"],
        wanted_mib=int(entry["wanted"]),
        state=LimitState(entry["state"]),
        in_force_mib=None if entry.get("inForce") is None else int(entry["inForce"]),
    )


def _disagreement_in(status: Mapping[str, Any]) -> str:
    for path in (status.get("capabilities") or {}).get("paths") or ():
        reason = str(path.get("reason") or "")
        if path.get("path") == "MemoryLimit" and reason.startswith(DISAGREED):
            return reason.removeprefix(DISAGREED).partition("; ")[0]
    return ""


def entry(limit: DeviceLimit) -> dict[str, Any]:
    found = {
        "podUID": limit.pod_uid,
        "uuid": limit.gpu_uuid,
        "dimension": "Memory",
        "wanted": limit.wanted_mib,
        "state": limit.state.value,
    }
    return found if limit.in_force_mib is None else found | {"inForce": limit.in_force_mib}
