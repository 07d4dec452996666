"""Reads the kubelet's Events about pods that wait for volumes or network. Their status does not name the cause.

A cluster has too many Events to watch. The operator lists those of one pod, and only while that pod waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from typing import Final

from cotenant.contract.decoding.plain_text import plain_text
from cotenant.controller.client.kube import EVENTS, Document, Kube
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.pods.pod_record import QUOTE_CHARS_MAX, PodRecord
from cotenant.core.model.lifecycle import Phase

EVERY_S: Final = 10.0
AFTER_S: Final = 15.0
"""A pod's Events are read once it has waited this long, so that its job can show the cause in time."""
PODS_A_ROUND: Final = 100
"""If a cluster cannot start anything, its pods take turns."""
SOURCES: Final = frozenset({"kubelet", "attachdetach-controller"})


@dataclass(slots=True)
class KubeletEventReader:
    kube: Kube
    cache: ObjectCache
    memories: JobMemories
    _: KW_ONLY
    clock: Callable[[], float] = time.time
    _last: str = ""
    """uid of the pod that was asked about last."""

    async def read(self) -> None:
        """Read the Events of the waiting pods whose turn it is, one after the other; forget causes that have passed."""
        waiting = {job.id: pods for job in self.cache.jobs.values() if (pods := list(self._waiting(job)))}
        heard = {pod.uid: await self._cause(pod) for pod in self._turn(chain.from_iterable(waiting.values()))}
        for memory in self.memories:  # the loop has looked at every job that starts, so it has one
            known = {**memory.pod_causes, **heard}
            told = {pod.uid: cause for pod in waiting.get(memory.id, ()) if (cause := known.get(pod.uid))}
            if told != memory.pod_causes:
                memory.pod_causes = told
                self.cache.mark_changed([memory.id])

    def _turn(self, pods: Iterable[PodRecord]) -> list[PodRecord]:
        """The next pods in the order of their uids, after the last one of the round before."""
        ordered = sorted(pods, key=lambda pod: (pod.uid <= self._last, pod.uid))[:PODS_A_ROUND]
        self._last = ordered[-1].uid if ordered else ""
        return ordered

    def _waiting(self, record: JobRecord) -> Iterator[PodRecord]:
        if record.phase is not Phase.STARTING:
            return
        for pod in self.cache.pods_of(record.id).values():
            late = pod.preparing_since and self.clock() >= pod.preparing_since + AFTER_S
            if late and pod.is_of(record.status.attempts):
                yield pod

    async def _cause(self, pod: PodRecord) -> str:
        listing = await self.kube.list(EVENTS, pod.namespace, about=pod.uid)
        return last_warning(listing.items)


def last_warning(events: Iterable[Document]) -> str:
    """The newest warning of a kubelet, such as `FailedMount: MountVolume.SetUp failed …`; empty if there is none."""
    found = [one for one in events if one.get("type") == "Warning" and _source(one) in SOURCES]
    if not found:
        return ""
    newest = max(found, key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""))
    return plain_text(f"{newest.get('reason', '')}: {newest.get('message', '')}".strip(": "), QUOTE_CHARS_MAX)


def _source(event: Document) -> str:
    return str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")
