"""Taints that worker pods do not tolerate, as the kube-scheduler compares them. No job starts on such a node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})")
"""Values that the operators `Gt` and `Lt` of a toleration compare. They match no other value."""
KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
TOLERATES_ALL: tuple[Mapping[str, Any], ...] = ({"operator": "Exists"},)


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
    operator = toleration.get("operator") or "Equal"
    if not toleration.get("key"):
        return bool(operator == "Exists")
    if toleration["key"] != taint.get("key"):
        return False
    value, bound = str(taint.get("value") or ""), str(toleration.get("value") or "")
    match operator:
        case "Exists":
            return True
        case "Gt" | "Lt" if not (WHOLE.fullmatch(value) and WHOLE.fullmatch(bound)):
            return False
        case "Gt":
            return int(value) > int(bound)
        case "Lt":
            return int(value) < int(bound)
    return value == bound
