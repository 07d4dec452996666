"""Reconciles GPUNode.status with the latest poll of the GPUs.

Without a new poll, a call writes only what events have changed. So a heartbeat always stands for a look at the GPUs.
Time comes in as `now`, in Unix seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from kubernetes.client.exceptions import ApiException

from cotenant.api.scalars.taints import TOLERATES_ALL
from cotenant.contract.decoding.plain_text import plain_text
from cotenant.names import (
    ANNOTATION_DRAIN,
    ANNOTATION_RESET,
    ANNOTATION_SLOW_REPORTS,
    ANNOTATION_SUSPECT,
    ANNOTATION_UNCORDON,
    HEARTBEAT_S,
    LABEL_GPU_CLASS,
)
from cotenant_agent.elapsed import elapsed_s
from cotenant_agent.failures import Failures, Step
from cotenant_agent.gpus.drains import read_drains
from cotenant_agent.gpus.readings import GpuInventory, XidEvent
from cotenant_agent.gpus.sampler import GpuPoll
from cotenant_agent.reports import isolation_conditions, node_status, published_limits, unreadable_gpus
from cotenant_agent.reports.gpunode_client import UNREACHABLE, GPUNodeClient, error_summary
from cotenant_agent.reports.node_view import NodeObserver, NodeView
from cotenant_agent.reports.reset_turns import ResetTurns, published
from cotenant_agent.reports.writers import Writer, conflict

log = logging.getLogger("cotenant.agent")

RETRY_S: Final = 5.0
NOTES_OF_SLOW_GPUS: Final = (ANNOTATION_SLOW_REPORTS, ANNOTATION_SUSPECT)
COUNT_S: Final = 600.0
"""Pause between two counts of the agents of this cluster."""
NODE_LOOK_S: Final = 60.0
"""Pause between two looks at the Node. They only show whether it is cordoned or tainted."""
FINDING_CHARS_MAX: Final = 300


class Agent:
    def __init__(
        self,
        cluster: GPUNodeClient,
        observer: NodeObserver,
        *,
        booted_at: float,
        contained: Failures | None = None,
        node: str = "",
        writer: Writer | None = None,
        tolerations: Collection[Mapping[str, Any]] = TOLERATES_ALL,
    ) -> None:
        self.node = node
        self._tolerations = tolerations
        self.contained = contained or Failures()
        self._writer = writer
        self._version = ""
        """Version of the GPUNode that this agent has seen last."""
        self.refused = ""
        """Why this agent writes nothing: another agent writes the GPUNode."""
        self._cluster, self._observer, self._booted_at = cluster, observer, booted_at
        self._published: Mapping[str, Any] | None = None
        self._levels: Mapping[str, str] = {}
        self.conditions: isolation_conditions.Conditions = ()
        self._written_at = 0.0
        self._tried_at = 0.0
        self._there = False
        self._class_label: str | None = None
        self._node_looked_at = self._counted_at = 0.0
        self._heartbeat_s = HEARTBEAT_S
        self._seen: GpuPoll | None = None
        self._turns_since_poll = 0
        self.resets = ResetTurns()
        self.view: NodeView | None = None
        self.poll_duration_s = 0.0
        self.writes = 0
        self.failures = 0

    def turn(self, taken: GpuPoll | None, xids: Iterable[XidEvent], now: float) -> None:
        """Reconcile, and note any failure. If it fails for long, no view is new, and the liveness probe ends
        the agent.
        """
        try:
            self.reconcile(taken, xids, now)
        except Exception as error:
            self.contained.note(Step.TURN, "the GPUNode cannot be brought up to date", error)

    def reconcile(self, taken: GpuPoll | None, xids: Iterable[XidEvent], now: float) -> None:
        events = list(xids)
        for xid in events:
            self._observer.record_xid(xid)
        if taken is None:
            return
        if not self._there and not self._ensure_gpu_node(now):
            return
        self._look_at_node(now)
        self._count_agents(now)
        self._turns_since_poll += 1
        if taken is not self._seen:
            self._seen, self.poll_duration_s, self._turns_since_poll = taken, taken.duration_s, 0
            self._observer.inventory = with_class_label(taken.inventory, self._class_label)
            view = self._observer.observe(taken.samples, self._cluster.pods(), taken.taken_at, taken.limits)
            self.view, reset = self.resets.after_poll(view, dict(taken.resets), now)
            self._observer.note_reset(reset)
        elif events and self.view is not None:
            self.view = self._observer.with_xids(self.view)
        assert self.view is not None
        document = node_status.build(self.view)
        hanging = self._turns_since_poll >= unreadable_gpus.HANGS_S  # one turn a second: a clock may be set
        self.conditions = document["conditions"] = [
            *isolation_conditions.reconciled(self.conditions, self._levels, self.view, document),
            *unreadable_gpus.conditions(
                self.conditions, taken.inventory.unreadable, document["heartbeat"], hanging=hanging
            ),
        ]
        self._levels = document["isolationLevels"]
        document["heartbeatSeconds"] = self._heartbeat_s
        if self._writer is not None:
            document["writer"] = self._writer.entry()
        if self._must_write(document, now):
            self._write(document, now)

    def _must_write(self, document: Mapping[str, Any], now: float) -> bool:
        if self.failures and elapsed_s(self._tried_at, now) < RETRY_S:
            return False
        if self._published is not None and document["heartbeat"] == self._published["heartbeat"]:
            # This poll was written already, so only events can have changed the document.
            return node_status.without_usage(document) != node_status.without_usage(self._published)
        return node_status.must_write(self._published, document, elapsed_s(self._written_at, now), self._heartbeat_s)

    def _ensure_gpu_node(self, now: float) -> bool:
        """Create or find the GPUNode, and take over its cordons. True once that is done."""
        if self.failures and elapsed_s(self._tried_at, now) < RETRY_S:
            return False
        self._tried_at = now
        try:
            node = self._cluster.node()
            there = self._cluster.ensure_gpu_node(node)
        except UNREACHABLE as error:
            self._failed("GPUNode cannot be created", error)
            return False
        if self._yields(there, now):
            return False
        self._class_label = (node["metadata"].get("labels") or {}).get(LABEL_GPU_CLASS)
        if self._published is None:
            self._restore_cordons(there.get("status") or {}, now)
            self.resets.state = replace(
                self.resets.state, results=published(there.get("status") or {}, node_status.parse_time)
            )
            self._levels, self.conditions = published_limits.earlier(there.get("status") or {})
            self._observer.restore_holders(node_status.holders_in(there.get("status") or {}))
            self._observer.set_slow_gpus(slow_gpus(there["metadata"].get("annotations") or {}))
        self._there, self.failures = True, 0
        return True

    def _yields(self, there: Mapping[str, Any], now: float) -> bool:
        """True while another agent writes this GPUNode. It is tried again as after a failure."""
        self._version = there["metadata"].get("resourceVersion") or ""
        if self._writer is None:
            return False
        status = there.get("status") or {}
        heartbeat = node_status.parse_time(status["heartbeat"]) if status.get("heartbeat") else None
        refused = conflict(self._writer, status, now, heartbeat, started=self._published is not None)
        if refused and refused != self.refused:
            log.error("nothing is published: %s", refused)
        self.refused = refused
        self.failures = self.failures + 1 if refused else 0
        return bool(refused)

    def _look_at_node(self, now: float) -> None:
        if elapsed_s(self._node_looked_at, now) < NODE_LOOK_S:
            return
        self._node_looked_at = now
        try:
            self._observer.node_condition = node_status.node_condition(self._cluster.node(), self._tolerations)
        except UNREACHABLE as error:
            log.warning("the Node cannot be read: %s", error_summary(error))

    def _count_agents(self, now: float) -> None:
        if elapsed_s(self._counted_at, now) < COUNT_S:
            return
        self._counted_at = now
        try:
            self._heartbeat_s = node_status.heartbeat_interval(self._cluster.gpu_nodes())
        except UNREACHABLE as error:
            log.warning("the GPUNodes cannot be counted: %s", error_summary(error))

    def _restore_cordons(self, before: Mapping[str, Any], now: float) -> None:
        last = before.get("heartbeat")
        rebooted = last is not None and node_status.parse_time(last) < self._booted_at
        sick = {gpu["uuid"]: gpu.get("health") or "" for gpu in before.get("gpus") or []}
        self._observer.restore_cordons(sick, now, rebooted=rebooted)
        versions = (self._observer.inventory.driver_version, self._observer.capabilities.toolkit_version)
        if not rebooted and (before.get("driverVersion"), before.get("toolkitVersion")) == versions:
            self._observer.restore_limits(published_limits.read(before), published_limits.read(before, "Compute"))

    def _write(self, document: Mapping[str, Any], now: float) -> None:
        self._tried_at = now
        try:
            answer = self._cluster.patch_status(
                node_status.patch(self._published, document) | seen_as(self._version if self._writer else "")
            )
        except UNREACHABLE as error:
            if isinstance(error, ApiException) and error.status == HTTPStatus.CONFLICT:
                self._there = False  # somebody else has written: who it is shows when it is read
                return
            if isinstance(error, ApiException) and error.status == HTTPStatus.NOT_FOUND:
                self._there, self._published = False, None
            self._failed("GPUNode.status cannot be written", error)
            return
        self._published, self._written_at, self.failures = document, now, 0
        self._version = answer["metadata"].get("resourceVersion") or ""
        self.writes += 1
        self._apply_annotations(answer, now)

    def _apply_annotations(self, answer: Mapping[str, Any], now: float) -> None:
        """Apply the annotations of the object that the patch returned: slow GPUs, and GPUs to uncordon."""
        annotations = answer["metadata"].get("annotations") or {}
        slow = slow_gpus(annotations)
        self._observer.set_slow_gpus(slow)
        if self.resets.take_up(annotations, now) and self._remove_annotations(ANNOTATION_RESET):
            self.resets.forget()
        self._drain_as_asked(annotations, now)
        requested = annotations.get(ANNOTATION_UNCORDON)
        if requested is None:
            return
        known = {gpu.uuid for gpu in self._observer.inventory.gpus}
        chosen = known if requested.strip() == "all" else {part.strip() for part in requested.split(",")}
        log.warning(
            "uncordoned by hand: %s", ", ".join(sorted(chosen & known)) or f"nothing, {requested!r} is no GPU here"
        )
        self._observer.uncordon(chosen & known)
        self._observer.set_slow_gpus({uuid: text for uuid, text in slow.items() if uuid not in chosen})
        notes = sorted(f"{what}/{uuid}" for what in NOTES_OF_SLOW_GPUS for uuid in chosen)
        self._remove_annotations(*(key for key in notes if key in annotations), ANNOTATION_UNCORDON)

    def _drain_as_asked(self, annotations: Mapping[str, str], now: float) -> None:
        """Drain before anything is uncordoned. If a GPU is named in both annotations, it is released."""
        if (text := annotations.get(ANNOTATION_DRAIN)) is None:
            return
        reasons = read_drains(text)
        self._observer.drain(reasons, now)
        log.warning("taken out by hand: %s", ", ".join(sorted(reasons)) or "nothing, the annotation cannot be read")
        self._remove_annotations(ANNOTATION_DRAIN)

    def _remove_annotations(self, *keys: str) -> bool:
        """True once they are removed, in this order."""
        try:
            for key in keys:
                self._cluster.remove_annotation(key)
        except UNREACHABLE as error:
            self._failed("the annotation cannot be removed", error)
            return False
        return True

    def _failed(self, what: str, error: BaseException) -> None:
        self.failures += 1
        log.warning("%s: %s; trying again in %d s", what, error_summary(error), RETRY_S)


def seen_as(version: str) -> dict[str, Any]:
    """Part of a patch that makes the API server refuse it if somebody has written since this version."""
    return {"metadata": {"resourceVersion": version}} if version else {}


def slow_gpus(annotations: Mapping[str, str]) -> dict[str, str]:
    """GPU UUID → what a job found, from `suspect.cotenant.dev/<UUID>`. It goes into the node's status."""
    keyed = ((key.partition("/"), plain_text(text, FINDING_CHARS_MAX)) for key, text in annotations.items())
    return {uuid: text for (prefix, _, uuid), text in keyed if prefix == ANNOTATION_SUSPECT}


def with_class_label(inventory: GpuInventory, label: str | None) -> GpuInventory:
    """The GPU with the class from the Node's label `cotenant.dev/gpu-class`, if the administrator has set it."""
    if not label or inventory.simulated:
        return inventory
    return replace(
        inventory,
        gpus=tuple(
            replace(gpu, gpu_class=f"{label}-{gpu.profile}" if gpu.profile else label) for gpu in inventory.gpus
        ),
    )
