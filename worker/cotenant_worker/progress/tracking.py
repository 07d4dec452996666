"""TensorBoard and MLflow, from the first step to the last: in rank 0's pod, where the job asks for it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from cotenant.contract import Contract
from cotenant_worker.host.background_tasks import BackgroundTasks
from cotenant_worker.progress.progress_board import ProgressBoard

if TYPE_CHECKING:
    from cotenant_worker.progress.sinks import Sink


class Tracking:
    """The sinks of this job. `sinks` is imported when the job has one: the launcher is up in a tenth of a second."""

    def __init__(self, contract: Contract, board: ProgressBoard) -> None:
        self.contract = contract
        self.board = board
        self._sinks: list[Sink] = []

    def start(self, tasks: BackgroundTasks) -> None:
        if self.contract.node_rank == 0 and self.contract.platform.get("tracking"):
            from cotenant_worker.progress import sinks

            self._sinks = sinks.sinks_of(self.contract)
            tasks.start(sinks.feed(self.board, self._sinks))

    async def close(self, *, succeeded: bool) -> None:
        """The last step, then the end of the run. Nothing where nothing is tracked."""
        if self._sinks:
            await asyncio.to_thread(self._close, succeeded)

    def _close(self, succeeded: bool) -> None:
        from cotenant_worker.progress import sinks

        sinks.write_once(self.board, self._sinks, -1)
        for sink in self._sinks:
            with contextlib.suppress(OSError, ValueError, KeyError):
                sink.close(succeeded)
