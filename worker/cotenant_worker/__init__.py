"""The worker in the pod of a tenant: limits GPU memory, forms the Ray cluster, trains, reports.

A program may import `context`, `report`, `all_reduce`, `should_stop` and `Saver` from it, but need not. Heavy modules
are imported only when a name is used, because PID 1 and every rank import this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cotenant_worker.checkpoints.local_store import Checkpoint
    from cotenant_worker.collectives.all_reduce import all_reduce, barrier, broadcast
    from cotenant_worker.parameter_server.shards import ParameterServer
    from cotenant_worker.reporting import Context, Saver, context, report, results, should_stop, stop_requested

__all__ = [
    "Checkpoint",
    "Context",
    "ParameterServer",
    "Saver",
    "all_reduce",
    "barrier",
    "broadcast",
    "context",
    "report",
    "results",
    "should_stop",
    "stop_requested",
]

_HOMES = {
    "ParameterServer": "parameter_server.shards",
    "Checkpoint": "checkpoints.local_store",
    "all_reduce": "collectives.all_reduce",
    "barrier": "collectives.all_reduce",
    "broadcast": "collectives.all_reduce",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'reporting')}"), name)
