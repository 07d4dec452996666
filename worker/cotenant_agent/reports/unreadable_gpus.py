"""Tells in the GPUNode why an agent does not start, or which GPUs of its node the driver cannot list, because
administrators look there before they read its log.

Of an agent that does not start, published GPUs stay: reloading a driver takes seconds, and pods may run meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
    condition = _condition(published, "AgentDoesNotStart", why, format_time(now))
    return {"conditions": [*others, condition], "health": "GPUs cannot be read"}


def conditions(before: Iterable[Mapping[str, Any]], unreadable: Collection[str], at: str) -> list[dict[str, Any]]:
    """The condition of a node of which the driver lists some GPUs and not others; none if it lists all."""
    if not unreadable:
        return []
    why = f"the driver cannot list them, so they are not handed out: {'; '.join(unreadable)}"
    return [_condition(before, "SomeNotListed", why, at)]


def _condition(before: Iterable[Mapping[str, Any]], reason: str, why: str, at: str) -> dict[str, Any]:
    since = next((one.get("lastTransitionTime") for one in before if one.get("type") == KIND), None)
    return {
        "type": KIND,
        "status": "True",
        "reason": reason,
        "message": plain_text(why, MESSAGE_CHARS_MAX),
        "lastTransitionTime": since or at,
    }
