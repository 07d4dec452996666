"""TensorBoard and MLflow, from the first step to the last, in rank 0's pod, if the job asks for them.

One daemon thread owns the sinks. The launcher passes values to it, and at the end waits for it for at most `CLOSE_S`.
Whatever a tracking server does, training goes on and the job ends as its ranks did.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from cotenant.contract import Contract
from cotenant_worker.host.background_tasks import BackgroundTasks
from cotenant_worker.progress.progress_board import ProgressBoard

if TYPE_CHECKING:
    from cotenant_worker.progress.sinks import Sink

EVERY_S: Final = 2.0
RETRY_S: Final = 30.0
"""Pause after a sink failed. Each try at a server behind a closed network takes a connection's timeout."""
CLOSE_S: Final = 5.0
"""Time for the last step and the end of the run, after the ranks have ended. The pod's GPUs are held until then."""
_WAITING_STEPS: Final = 256


@dataclass(frozen=True, slots=True)
class _End:
    succeeded: bool


@dataclass(slots=True)
class SinkThread:
    """Writes to the sinks, one after the other. `warn` takes a key and a text; an empty text withdraws it."""

    sinks: list[Sink]
    warn: Callable[[str, str], None]
    clock: Callable[[], float] = time.monotonic
    ended: threading.Event = field(default_factory=threading.Event)
    _steps: queue.Queue[tuple[int, Mapping[str, float]] | _End] = field(
        default_factory=lambda: queue.Queue(_WAITING_STEPS)
    )
    _retry_at: dict[str, float] = field(default_factory=dict)
    """Name of a sink that failed → when it is tried again."""

    def start(self) -> None:
        """Start the thread as a daemon, so that a sink that hangs does not keep the process."""
        threading.Thread(target=self.run, name="tracking", daemon=True).start()

    def offer(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a step. It is dropped if a sink is behind by `_WAITING_STEPS`."""
        with contextlib.suppress(queue.Full):
            self._steps.put_nowait((step, metrics))

    def end(self, succeeded: bool) -> None:
        with contextlib.suppress(queue.Full):
            self._steps.put_nowait(_End(succeeded))

    def run(self) -> None:
        while not isinstance(item := self._steps.get(), _End):
            step, metrics = item
            for sink in self.sinks:
                if self.clock() >= self._retry_at.get(sink.name, 0.0):
                    self._attempt(sink, partial(sink.write, step, metrics))
        for sink in self.sinks:
            self._attempt(sink, partial(sink.close, item.succeeded))
        self.ended.set()

    def _attempt(self, sink: Sink, action: Callable[[], None]) -> None:
        """Run one call. Any error of a foreign server becomes a warning."""
        try:
            action()
        except Exception as error:
            self._retry_at[sink.name] = self.clock() + RETRY_S
            text = f"{sink.name} failed, and is tried again every {RETRY_S:g} s: {type(error).__name__}: {error}"
            self.warn(f"sink-{sink.name}", text)
        else:
            if self._retry_at.pop(sink.name, None) is not None:
                self.warn(f"sink-{sink.name}", "")


class Tracking:
    """The sinks of this job. `sinks` is imported only if there is one, because the launcher must start fast."""

    def __init__(self, contract: Contract, board: ProgressBoard) -> None:
        self.contract = contract
        self.board = board
        self._thread: SinkThread | None = None
        self._offered = -1

    def start(self, tasks: BackgroundTasks) -> None:
        if self.contract.node_rank == 0 and self.contract.platform.get("tracking"):
            from cotenant_worker.progress import sinks

            loop = asyncio.get_running_loop()

            def warn(key: str, text: str) -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended, and the pod with it
                    loop.call_soon_threadsafe(self.board.warn, key, text)

            self._thread = SinkThread(sinks.sinks_of(self.contract), warn)
            self._thread.start()
            tasks.every(EVERY_S, lambda _: self._offer_step())

    async def close(self, *, succeeded: bool) -> None:
        """Write the last step, then the end of the run. Does nothing if nothing is tracked."""
        if (thread := self._thread) is None:
            return
        self._offer_step()
        thread.end(succeeded)
        if not await asyncio.to_thread(thread.ended.wait, CLOSE_S):
            text = f"tracking did not end within {CLOSE_S:g} s: the last metrics may be missing there"
            self.board.warn("sink-end", text)

    def _offer_step(self) -> None:
        """Pass a new step's metrics on."""
        progress = self.board.progress()
        metrics = {**progress.metrics, **({"steps_per_second": progress.rate} if progress.rate else {})}
        if self._thread is not None and progress.step != self._offered and metrics:
            self._offered = progress.step
            self._thread.offer(progress.step, metrics)
