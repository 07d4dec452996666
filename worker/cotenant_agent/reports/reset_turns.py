"""Resets in the agent's loop: from the annotation of the GPUNode to the driver, and back into the status."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from cotenant.names import ANNOTATION_RESET
from cotenant_agent.gpus import gpu_resets
from cotenant_agent.gpus.gpu_resets import GpuReset, GpuResets, GpuUse, ResetState
from cotenant_agent.reports.node_view import NodeView

log = logging.getLogger("cotenant.agent")

UUIDS_MAX: Final = 64


class ResetTurns:
    """Must be called by one thread, which is the agent's. `start` has the driver reset a GPU; a later poll has the
    result.
    """

    def __init__(self) -> None:
        self.start: Callable[[str], None] = lambda _: None
        self.state = GpuResets()
        self._taken_up = ""

    def take_up(self, annotations: Mapping[str, str], now: float) -> bool:
        """Take up the annotation's requests. True once all are answered and the annotation can be removed."""
        wanted = annotations.get(ANNOTATION_RESET, "")
        uuids = list(dict.fromkeys(part.strip() for part in wanted.split(",") if part.strip()))[:UUIDS_MAX]
        if wanted != self._taken_up:
            self._taken_up = wanted
            self.state = gpu_resets.asked(self.state, uuids, now)
            if uuids:
                log.warning("asked to reset %s", ", ".join(uuids))
            return bool(wanted) and not uuids
        return bool(wanted) and not self.state.pending & set(uuids)

    def forget(self) -> None:
        """Forget the requests: the annotation is gone, and an equal one may come again."""
        self._taken_up = ""

    def after_poll(self, view: NodeView, done: Mapping[str, str], now: float) -> tuple[NodeView, frozenset[str]]:
        """The view with the state of the resets, and the UUIDs that were reset, whose cordons are lifted."""
        for uuid, error in done.items():
            self.state = gpu_resets.finished(self.state, uuid, error, now)
            log.warning("reset of %s: %s", uuid, error or "done")
        before = self.state.running
        self.state = gpu_resets.judged(self.state, use_in(view), now)
        if self.state.running and self.state.running != before:
            self.start(self.state.running)
        return replace(view, resets=self.state), frozenset(uuid for uuid, error in done.items() if not error)


def use_in(view: NodeView) -> GpuUse:
    """Holders and users of this node's GPUs: pods by grants and claims, and every process that the driver shows."""
    parent = {gpu.uuid: gpu.parent for gpu in view.inventory.gpus if gpu.parent}
    by: dict[str, str] = {}
    for uuid, uses in view.uses.items():
        for use in uses:
            who = f"pod {use.pod_uid} is" if use.pod_uid else "processes outside pods are"
            by[parent.get(uuid, uuid)] = f"{who} on it"
    for on_gpu in view.claimed:
        by[parent.get(on_gpu.gpu_uuid, on_gpu.gpu_uuid)] = f"a claim of pod {on_gpu.pod_uid} holds it"
    for holder in (view.holders or {}).values():
        for uuid in holder.grant.quota_mib:
            by[parent.get(uuid, uuid)] = f"pod {holder.grant.namespace}/{holder.grant.pod} holds it"
    whole = frozenset(gpu.uuid for gpu in view.inventory.gpus if not gpu.parent)
    return GpuUse(known=view.holders is not None, whole=whole, by=by)


def entry(reset: GpuReset, at: str) -> dict[str, Any]:
    return {"state": reset.state.value, "message": reset.message, "at": at}


def published(status: Mapping[str, Any], parse: Callable[[str], float]) -> dict[str, GpuReset]:
    """Results in a published status, by UUID. Those that cannot be read are left out."""
    found = {}
    for gpu in status.get("gpus") or ():
        try:
            one = gpu["reset"]
            found[gpu["uuid"]] = GpuReset(
                state=ResetState(one["state"]), message=str(one["message"]), at=parse(one["at"])
            )
        except (KeyError, TypeError, ValueError):
            continue
    return found
