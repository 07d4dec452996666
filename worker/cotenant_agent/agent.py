"""The agent's turn: the latest look at the GPUs becomes GPUNode.status, when there is something to write.

`main` calls `turn` about once a second. A turn without a new look writes nothing, so the heartbeat never claims more
than was seen. All time comes in as `now`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from kubernetes.client.exceptions import ApiException

from cotenant.names import ANNOTATION_SUSPECT, ANNOTATION_UNCORDON, LABEL_GPU_CLASS
from cotenant_agent.gpus.readings import Inventory, Xid
from cotenant_agent.gpus.sampler import Taken
from cotenant_agent.reports import node_status
from cotenant_agent.reports.gpunode_client import UNREACHABLE, Cluster, brief
from cotenant_agent.reports.node_view import Observer, View

log = logging.getLogger("cotenant.agent")

RETRY_S: Final = 5.0


class Agent:
    def __init__(self, cluster: Cluster, observer: Observer, *, booted_at: float) -> None:
        self._cluster, self._observer, self._booted_at = cluster, observer, booted_at
        self._published: Mapping[str, Any] | None = None
        self._written_at = 0.0
        self._tried_at = 0.0
        self._there = False
        self._class_label: str | None = None
        self._seen: Taken | None = None
        self.view: View | None = None
        self.took_s = 0.0
        self.writes = 0
        self.failures = 0

    def turn(self, taken: Taken | None, xids: Iterable[Xid], now: float) -> None:
        events = list(xids)
        for xid in events:
            self._observer.event(xid)
        if taken is None:
            return
        if not self._there and not self._appear(now):
            return
        if taken is not self._seen:
            self._seen, self.took_s = taken, taken.took_s
            self._observer.inventory = classed(taken.inventory, self._class_label)
            self.view = self._observer.look(taken.samples, self._cluster.grants(), taken.at)
        elif events and self.view is not None:
            self.view = self._observer.after_events(self.view)
        assert self.view is not None
        document = node_status.build(self.view)
        if self._news(document, now):
            self._write(document, now)

    def _news(self, document: Mapping[str, Any], now: float) -> bool:
        if self.failures and now - self._tried_at < RETRY_S:
            return False
        if self._published is not None and document["heartbeat"] == self._published["heartbeat"]:
            # The same look as was written already: only events may have changed what is to be said of it.
            return node_status.settled(document) != node_status.settled(self._published)
        return node_status.due(self._published, document, now - self._written_at)

    def _appear(self, now: float) -> bool:
        """The GPUNode exists, and what it says of sick GPUs is remembered."""
        if self.failures and now - self._tried_at < RETRY_S:
            return False
        self._tried_at = now
        try:
            node = self._cluster.node()
            there = self._cluster.ensure_gpu_node(node)
        except UNREACHABLE as error:
            self._failed("GPUNode cannot be created", error)
            return False
        self._class_label = (node["metadata"].get("labels") or {}).get(LABEL_GPU_CLASS)
        if self._published is None:
            self._remember(there.get("status") or {}, now)
            self._observer.reported_slow(slow_gpus(there["metadata"].get("annotations") or {}))
        self._there, self.failures = True, 0
        return True

    def _remember(self, before: Mapping[str, Any], now: float) -> None:
        last = before.get("heartbeat")
        rebooted = last is not None and node_status.unstamp(last) < self._booted_at
        sick = {gpu["uuid"]: gpu.get("health") or "" for gpu in before.get("gpus") or []}
        self._observer.remember(sick, now, rebooted=rebooted)

    def _write(self, document: Mapping[str, Any], now: float) -> None:
        self._tried_at = now
        try:
            answer = self._cluster.patch_status(node_status.patch(self._published, document))
        except UNREACHABLE as error:
            if isinstance(error, ApiException) and error.status == 404:
                self._there, self._published = False, None
            self._failed("GPUNode.status cannot be written", error)
            return
        self._published, self._written_at, self.failures = document, now, 0
        self.writes += 1
        self._heed(answer)

    def _heed(self, answer: Mapping[str, Any]) -> None:
        """What others wrote on the object that the patch returned: which GPUs are slow, which are fit again."""
        annotations = answer["metadata"].get("annotations") or {}
        slow = slow_gpus(annotations)
        self._observer.reported_slow(slow)
        wish = annotations.get(ANNOTATION_UNCORDON)
        if wish is None:
            return
        known = {gpu.uuid for gpu in self._observer.inventory.gpus}
        chosen = known if wish.strip() == "all" else {part.strip() for part in wish.split(",")}
        log.warning("uncordoned by hand: %s", ", ".join(sorted(chosen & known)) or f"nothing, {wish!r} is no GPU here")
        self._observer.uncordon(chosen & known)
        self._observer.reported_slow({uuid: text for uuid, text in slow.items() if uuid not in chosen})
        try:
            for uuid in sorted(chosen & set(slow)):
                self._cluster.remove_annotation(f"{ANNOTATION_SUSPECT}/{uuid}")
            self._cluster.remove_annotation(ANNOTATION_UNCORDON)
        except UNREACHABLE as error:
            self._failed("the annotation cannot be removed", error)

    def _failed(self, what: str, error: BaseException) -> None:
        self.failures += 1
        log.warning("%s: %s; trying again in %d s", what, brief(error), RETRY_S)


def slow_gpus(annotations: Mapping[str, str]) -> dict[str, str]:
    """GPU UUID → what a job found, from `suspect.cotenant.dev/<UUID>`."""
    keyed = ((key.partition("/"), text) for key, text in annotations.items())
    return {uuid: text for (prefix, _, uuid), text in keyed if prefix == ANNOTATION_SUSPECT}


def classed(inventory: Inventory, label: str | None) -> Inventory:
    """The administrator's label `cotenant.dev/gpu-class` on the Node beats the product's name."""
    if not label or inventory.simulated:
        return inventory
    return replace(inventory, gpus=tuple(replace(gpu, gpu_class=label) for gpu in inventory.gpus))
