"""Threads that call the source, so that a call that never returns blocks nothing else.

`GpuSampler` keeps its latest poll in an attribute; `XidListener` puts events into a queue. If the driver hangs, no new
poll comes, the heartbeat in GPUNode goes stale, and the operator treats the node as unknown.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cotenant_agent.failures import Failures, Step
from cotenant_agent.gpus.readings import (
    AskedLimit,
    GpuInventory,
    GpuSample,
    GpuSource,
    GpuSourceError,
    LimitReading,
    XidEvent,
)

log = logging.getLogger("cotenant.agent.sampler")


@dataclass(frozen=True, slots=True)
class GpuPoll:
    inventory: GpuInventory
    samples: tuple[GpuSample, ...]
    taken_at: float
    """When the poll was complete, in Unix seconds."""
    duration_s: float
    limits: tuple[tuple[AskedLimit, LimitReading | None], ...] = ()
    """Limits that pods asked for, as the driver has them; None if they cannot be read."""
    resets: tuple[tuple[str, str], ...] = ()
    """UUID of a GPU that was reset before this poll → the error; empty if it succeeded."""


class GpuSampler(threading.Thread):
    def __init__(
        self,
        source: GpuSource,
        stop: threading.Event,
        failures: Failures,
        *,
        every_s: float,
        asked: Callable[[], Iterable[AskedLimit]] = tuple,
    ) -> None:
        super().__init__(name="sampler", daemon=True)
        self._source, self._stop_event, self._failures, self._every_s = source, stop, failures, every_s
        self._asked = asked
        self.latest: GpuPoll | None = None
        self._resets: queue.SimpleQueue[str] = queue.SimpleQueue()

    def ask_reset(self, uuid: str) -> None:
        """Ask for a reset of the GPU before the next poll, which has the result."""
        self._resets.put(uuid)

    def run(self) -> None:
        logged = ""
        while not self._stop_event.is_set():
            resets = self._reset_all()
            started = time.monotonic()
            try:
                inventory, samples = self._source.inventory(), self._source.samples()
                limits = tuple((one, self._source.memory_limit(one)) for one in self._asked())
                self.latest = GpuPoll(inventory, samples, time.time(), time.monotonic() - started, limits, resets)
                logged = ""
            except GpuSourceError as error:
                if str(error) != logged:
                    log.error("GPUs cannot be read, the heartbeat stands still: %s", error)
                logged = str(error)
            except Exception as error:  # the thread lives as long as the agent
                self._failures.note(Step.POLL, "the poll of the GPUs", error)
            self._stop_event.wait(self._every_s)

    def _reset_all(self) -> tuple[tuple[str, str], ...]:
        done = []
        while not self._resets.empty():
            uuid = self._resets.get_nowait()
            try:
                done.append((uuid, self._source.reset(uuid)))
            except Exception as error:
                self._failures.note(Step.RESET, f"the reset of {uuid}", error)
                done.append((uuid, f"{type(error).__name__}: {error}"))
        return tuple(done)


class XidListener(threading.Thread):
    def __init__(self, source: GpuSource, stop: threading.Event, failures: Failures, *, timeout_s: float = 5.0) -> None:
        super().__init__(name="xids", daemon=True)
        self._source, self._stop_event, self._failures, self._timeout_s = source, stop, failures, timeout_s
        self._events: queue.SimpleQueue[XidEvent] = queue.SimpleQueue()

    def run(self) -> None:
        logged = ""
        while not self._stop_event.is_set():
            try:
                xid = self._source.wait_for_xid(self._timeout_s)
            except GpuSourceError as error:
                if str(error) != logged:
                    log.error("no events of the driver, health rests on polling alone: %s", error)
                logged = str(error)
                self._stop_event.wait(self._timeout_s)
                continue
            except Exception as error:
                self._failures.note(Step.EVENTS, "the events of the driver", error)
                self._stop_event.wait(self._timeout_s)
                continue
            if xid is not None:
                log.warning("XID %d on %s", xid.code, xid.uuid or "an unnamed GPU")
                self._events.put(xid)

    def drain(self) -> list[XidEvent]:
        """The events since the last call."""
        events: list[XidEvent] = []
        while True:
            try:
                events.append(self._events.get_nowait())
            except queue.Empty:
                return events
