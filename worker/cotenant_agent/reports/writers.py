"""Which of two agents on one node writes the GPUNode: the one that was there first, or the one that started last. Pure.

Agents of different devices (NVIDIA's, and those that the kubelet hands out) would overwrite each other's GPUs, and jobs
would be placed on both in turns. So each agent writes who it is, and the API server accepts a write only if nobody else
has written since. An agent that finds another one alive does not write, and says so. Of two agents of the same kind,
the later one is the next version of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant import __version__, names

ALIVE_HEARTBEATS: Final = 3
"""An agent that has missed more heartbeats has left the node to others."""


@dataclass(frozen=True, slots=True)
class Writer:
    source: str
    """What it lists: `nvidia`, or extended resources separated by commas."""
    instance: str
    """Its pod's name."""

    def entry(self) -> dict[str, str]:
        return {"source": self.source, "instance": self.instance, "version": __version__}


def conflict(me: Writer, status: Mapping[str, Any], now: float, heartbeat: float | None, *, started: bool) -> str:
    """Why `me` must not write this status; empty if it may. `heartbeat` is in Unix seconds, None if there is none.

    `started` is true if `me` has written before, so another agent of its kind came after it.
    """
    other = status.get("writer")
    alive_s = ALIVE_HEARTBEATS * (status.get("heartbeatSeconds") or names.HEARTBEAT_S)
    if not isinstance(other, Mapping) or heartbeat is None or now - heartbeat > alive_s:
        return ""
    source, instance = str(other.get("source") or ""), str(other.get("instance") or "")
    if instance == me.instance or not source:
        return ""
    if source != me.source:
        return (
            f"an agent for {source} ({instance}) writes the GPUNode of this node, and this one is for {me.source}: "
            "let agent.nodeSelector and agent.otherDevices.nodeSelector of the chart choose different nodes"
        )
    return f"another agent for {source} ({instance}) writes the GPUNode of this node since" if started else ""
