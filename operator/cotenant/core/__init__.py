"""The decision: pure, integer, deterministic. No clock, no I/O, no logging, no Kubernetes; `schedule` is the heart.

`schedule` and numpy are imported at first use: verbs of the kubectl plugin read `core.model`, and the plugin has no
numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cotenant.core.policy import DEFAULT, Policy
    from cotenant.core.scheduling.scheduler import schedule
    from cotenant.core.state.cluster_state import ClusterState

__all__ = ["DEFAULT", "ClusterState", "Policy", "schedule"]

_HOMES = {
    "DEFAULT": "policy",
    "ClusterState": "state.cluster_state",
    "Policy": "policy",
    "schedule": "scheduling.scheduler",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
