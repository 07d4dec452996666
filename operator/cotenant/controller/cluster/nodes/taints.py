"""Taints that worker pods do not tolerate. The core is offered no such node, as the kube-scheduler would refuse it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})


def untolerated_taint(taints: Iterable[Mapping[str, Any]], tolerations: Iterable[Mapping[str, Any]]) -> str | None:
    """Key of the first taint that keeps worker pods away; None if there is none."""
    wanted = list(tolerations)
    for taint in taints:
        if taint.get("effect") in KEEPS_AWAY and not any(_tolerates(one, taint) for one in wanted):
            return str(taint.get("key", ""))
    return None


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in {None, "", taint.get("effect")}:
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    if toleration["key"] != taint.get("key"):
        return False
    return exists or (toleration.get("value") or "") == (taint.get("value") or "")
