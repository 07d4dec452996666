"""Conditions `MemoryIsolationLowered` and `ComputeIsolationLowered` of a GPUNode: a level that fell, and why. Pure.

A condition becomes true when a dimension is enforced at a lower level than before, and stays so until the old level is
back. The reason names the old level (`WasHard`), so a restart of the agent forgets nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from cotenant_agent.gpus import capabilities
from cotenant_agent.reports import published_limits
from cotenant_agent.reports.node_view import NodeView

LEVELS: Final = ("None", "Cooperative", "Watched", "Hard")
"""Weakest first."""
KINDS: Final = {"memory": "MemoryIsolationLowered", "compute": "ComputeIsolationLowered"}
WAS: Final = "Was"
HELD: Final = "AsBefore"
MESSAGE_CHARS_MAX: Final = 512
Conditions: TypeAlias = Sequence[Mapping[str, Any]]


def reconciled(
    before: Conditions, earlier: Mapping[str, str], view: NodeView, document: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The conditions that go with `document`, if `before` and the levels `earlier` were published last. A dimension
    that never fell has none.
    """
    known = {one.get("type"): one for one in before}
    found = []
    for dimension, kind in KINDS.items():
        now = document["isolationLevels"][dimension]
        one = _condition(known.get(kind), earlier.get(dimension, now), now, why(view, dimension))
        if one is not None:
            since = one.pop("since", document["heartbeat"])
            found.append({"type": kind, **one, "lastTransitionTime": since})
    return found


def _condition(known: Mapping[str, Any] | None, earlier: str, now: str, because: str) -> dict[str, Any] | None:
    fell_from = _fell_from(known) or now
    peak = max(fell_from, earlier, key=_strength)
    if _strength(now) < _strength(peak):
        message = f"{peak} before, now {now}: {because}"[:MESSAGE_CHARS_MAX]
        unchanged = known is not None and known.get("status") == "True" and known.get("reason") == f"{WAS}{peak}"
        since = {"since": known["lastTransitionTime"]} if unchanged and known is not None else {}
        return {"status": "True", "reason": f"{WAS}{peak}", "message": message} | since
    if known is None:
        return None
    since = {"since": known["lastTransitionTime"]} if known.get("status") == "False" else {}
    return {"status": "False", "reason": HELD, "message": f"{now}"} | since


def _fell_from(known: Mapping[str, Any] | None) -> str:
    """The level before the fall, from a condition that is true; empty without one."""
    if known is None or known.get("status") != "True":
        return ""
    level = str(known.get("reason") or "").removeprefix(WAS)
    return level if level in LEVELS else ""


def _strength(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else 0


def why(view: NodeView, dimension: str) -> str:
    """What keeps the node from the best level of this dimension."""
    if dimension == "compute":
        return "; ".join(published_limits.compute_missing(view)) or "no share of compute has been seen in force since"
    if view.inventory.simulated:
        return "the GPUs are simulated"
    if missing := capabilities.runtime_class_missing(view.capabilities):
        return "; ".join(missing)
    if not view.attributing:
        return capabilities.NOT_ATTRIBUTING
    if view.limits.disagreement:
        return view.limits.disagreement
    missing = capabilities.memory_limit_missing(view.capabilities, view.inventory)
    return "; ".join(missing) or "no limit has been read back since"
