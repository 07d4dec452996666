"""Tells in the GPUNode why an agent does not start, because administrators look there before they read its log.

Published GPUs stay: reloading a driver takes seconds, and pods may run meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cotenant.contract.decoding.plain_text import plain_text
from cotenant_agent.gpus.capabilities import Capabilities, runtime_class_missing
from cotenant_agent.reports.gpunode_client import GPUNodeClient
from cotenant_agent.reports.node_status import format_time

KIND: Final = "GPUsUnreadable"
MESSAGE_CHARS_MAX: Final = 1024


def reason(error: str, found: Capabilities) -> str:
    """What keeps the GPUs from this pod: the runtime's settings if they explain it, otherwise the driver's message."""
    return "; ".join(runtime_class_missing(found)) or error


def publish(cluster: GPUNodeClient, why: str, now: float) -> None:
    """Write the condition. Raises what the client raises."""
    there = cluster.ensure_gpu_node(cluster.node())
    cluster.patch_status({"status": patch(there.get("status") or {}, why, now)})


def patch(status: Mapping[str, Any], why: str, now: float) -> dict[str, Any]:
    """The part of the status to merge: this condition beside the others, and one phrase for a table."""
    published = [dict(one) for one in status.get("conditions") or ()]
    others = [one for one in published if one.get("type") != KIND]
    since = next((one.get("lastTransitionTime") for one in published if one.get("type") == KIND), None)
    condition = {
        "type": KIND,
        "status": "True",
        "reason": "AgentDoesNotStart",
        "message": plain_text(why, MESSAGE_CHARS_MAX),
        "lastTransitionTime": since or format_time(now),
    }
    return {"conditions": [*others, condition], "health": "GPUs cannot be read"}
