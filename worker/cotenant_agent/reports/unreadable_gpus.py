"""Tells in the GPUNode why an agent does not start, that the driver hangs, or which GPUs of its node it cannot list,
because administrators look there before they read its log.

Of an agent that does not start, published GPUs stay: reloading a driver takes seconds, and pods may run meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from cotenant.contract.decoding.plain_text import plain_text
from cotenant_agent.gpus.capabilities import Capabilities, runtime_class_missing
from cotenant_agent.reports.gpunode_client import UNREACHABLE, GPUNodeClient, error_summary
from cotenant_agent.reports.node_status import format_time

log = logging.getLogger("cotenant.agent")

KIND: Final = "GPUsUnreadable"
HANGS_S: Final = 90
"""A driver that takes this long does not come back by itself, and a process inside of it cannot be ended."""
HANGS: Final = (
    f"the driver has not answered for {HANGS_S} s: a call to it hangs, as nvidia-smi on the node would. `dmesg` there"
    " says more, and it may need a reboot"
)
MESSAGE_CHARS_MAX: Final = 1024


def reason(error: str, found: Capabilities) -> str:
    """What keeps the GPUs from this pod: the runtime's settings if they explain it, otherwise the driver's message."""
    return "; ".join(runtime_class_missing(found)) or error


def publish(cluster: GPUNodeClient, why: str) -> None:
    """Write the condition, if the API server can be reached."""
    try:
        there = cluster.ensure_gpu_node(cluster.node())
        cluster.patch_status({"status": patch(there.get("status") or {}, why, time.time())})
    except UNREACHABLE as error:
        log.warning("the GPUNode does not say so: %s", error_summary(error))


@contextmanager
def told_if_hanging(cluster: GPUNodeClient, after_s: float = HANGS_S) -> Iterator[None]:
    """Write the condition if what is done inside takes this long."""
    timer = threading.Timer(after_s, publish, (cluster, HANGS))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it may be writing: what is written later is to have the last word


def patch(status: Mapping[str, Any], why: str, now: float) -> dict[str, Any]:
    """The part of the status to merge: this condition beside the others, and one phrase for a table."""
    published = [dict(one) for one in status.get("conditions") or ()]
    others = [one for one in published if one.get("type") != KIND]
    condition = _condition(published, "AgentDoesNotStart", why, format_time(now))
    return {"conditions": [*others, condition], "health": "GPUs cannot be read"}


def conditions(
    before: Iterable[Mapping[str, Any]], unreadable: Collection[str], at: str, *, hanging: bool = False
) -> list[dict[str, Any]]:
    """The condition of a node whose driver hangs, or lists some GPUs and not others; none if it lists all."""
    if hanging:
        return [_condition(before, "DriverHangs", HANGS, at)]
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
