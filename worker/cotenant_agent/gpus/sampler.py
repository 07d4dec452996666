"""The threads that talk to the source, so that a call that never returns stops nothing but the news.

`Sampler` leaves its latest look where the agent finds it; `XidListener` hands events over a queue. When a driver hangs,
no new look comes, the heartbeat in GPUNode goes stale, and the operator treats the node as unknown: that is the truth.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from dataclasses import dataclass

from cotenant_agent.gpus.readings import Inventory, Sample, Source, SourceError, Xid

log = logging.getLogger("cotenant.agent.sampler")


@dataclass(frozen=True, slots=True)
class Taken:
    inventory: Inventory
    samples: tuple[Sample, ...]
    at: float
    """When the look was complete, in Unix seconds."""
    took_s: float


class Sampler(threading.Thread):
    def __init__(self, source: Source, stop: threading.Event, *, every_s: float) -> None:
        super().__init__(name="sampler", daemon=True)
        self._source, self._stop_event, self._every_s = source, stop, every_s
        self.latest: Taken | None = None

    def run(self) -> None:
        complaint = ""
        while not self._stop_event.is_set():
            started = time.monotonic()
            try:
                inventory, samples = self._source.inventory(), self._source.samples()
                self.latest = Taken(inventory, samples, time.time(), time.monotonic() - started)
                complaint = ""
            except SourceError as error:
                if str(error) != complaint:
                    log.error("GPUs cannot be read, the heartbeat stands still: %s", error)
                complaint = str(error)
            self._stop_event.wait(self._every_s)


class XidListener(threading.Thread):
    def __init__(self, source: Source, stop: threading.Event, *, timeout_s: float = 5.0) -> None:
        super().__init__(name="xids", daemon=True)
        self._source, self._stop_event, self._timeout_s = source, stop, timeout_s
        self._events: queue.SimpleQueue[Xid] = queue.SimpleQueue()

    def run(self) -> None:
        complaint = ""
        while not self._stop_event.is_set():
            try:
                xid = self._source.wait_for_xid(self._timeout_s)
            except SourceError as error:
                if str(error) != complaint:
                    log.error("no events of the driver, health rests on polling alone: %s", error)
                complaint = str(error)
                self._stop_event.wait(self._timeout_s)
                continue
            if xid is not None:
                log.warning("XID %d on %s", xid.code, xid.uuid or "an unnamed GPU")
                self._events.put(xid)

    def taken(self) -> list[Xid]:
        """What happened since the last call."""
        events: list[Xid] = []
        while True:
            try:
                events.append(self._events.get_nowait())
            except queue.Empty:
                return events
