"""Fetches the job's data in a process of its own before this pod is ready, and shows its progress on the board."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cotenant import names
from cotenant.contract import Contract
from cotenant_worker.host.processes import ChildWatcher, forward_output
from cotenant_worker.object_stores.staging_reports import STAGING_REPORTS, StagingProgress, StagingRefused
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.progress.termination import log_line
from cotenant_worker.supervision.commands import Finish
from cotenant_worker.supervision.messages import PodEvent, PodStaging

_ALIVE_S: Final = 2.0
"""Pause between two signs of life. The conductor waits for this pod as long as they come."""


@dataclass(slots=True)
class DataStaging:
    contract: Contract
    children: ChildWatcher
    env: Mapping[str, str]
    board: ProgressBoard
    emit: Callable[[PodEvent], None]
    _progress: StagingProgress = field(default_factory=lambda: StagingProgress(0, 0))
    _refused: StagingRefused | None = None

    async def run(self) -> Finish | None:
        """Fetch all data of the contract. Returns a verdict if that fails. The process is killed with the pod's
        descendants.
        """
        if not self.contract.data:
            return None
        began = time.monotonic()
        signs = asyncio.create_task(self._show_life())
        try:
            code, tail = await self._run_process()
        finally:
            signs.cancel()
            self.board.warn("staging", "")
        if code != 0:
            return self._verdict(code, tail)
        self._show(done=True)
        seconds = time.monotonic() - began
        log_line(f"data staged: {self._progress.of_bytes} bytes in {seconds:.1f} s")
        return None

    async def _run_process(self) -> tuple[int, tuple[str, ...]]:
        """(exit code, last lines that it printed)"""
        reports_read, reports_write = os.pipe()
        output_read, output_write = os.pipe()
        argv = [sys.executable, "-P", "-m", "cotenant_worker.object_stores.staging", str(reports_write)]
        child = self.children.spawn("staging", argv, self.env, cwd="/", output=output_write, keep=[reports_write])
        os.close(reports_write)
        os.close(output_write)
        await asyncio.gather(self._read(reports_read), forward_output(output_read, child, ""))
        return await child.exit, tuple(child.tail)

    async def _read(self, descriptor: int) -> None:
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
        )
        try:
            while line := await reader.readline():
                self._take(line)
        finally:
            transport.close()

    def _take(self, line: bytes) -> None:
        match STAGING_REPORTS.decode(line):
            case StagingProgress() as progress:
                self._progress = progress
                self.board.warn("staging", f"staging data: {progress.note}" if progress.note else "")
                self._show()
            case StagingRefused() as refused:
                self._refused = refused

    async def _show_life(self) -> None:
        while True:
            self._show()
            await asyncio.sleep(_ALIVE_S)

    def _show(self, *, done: bool = False) -> None:
        event = PodStaging(self.contract.node_rank, self._progress.fetched_bytes, self._progress.of_bytes, done)
        self.board.record_staging(event, time.time())
        self.emit(event)

    def _verdict(self, code: int, tail: tuple[str, ...]) -> Finish:
        if self._refused is not None:
            refused = self._refused
            found = names.EXIT_DATA_UNREACHABLE if refused.retriable else names.EXIT_BAD_CONTRACT
            return Finish(found, refused.reason, refused.message)
        if any("No module named 'obstore'" in line for line in tail):
            text = "spec.data needs the package obstore in the job's image, beside this launcher: pip install obstore"
            return Finish(names.EXIT_BAD_CONTRACT, "DataMisconfigured", text)
        text = f"the process that stages the data ended with {code}" + (f": {tail[-1]}" if tail else "")
        return Finish(names.EXIT_DATA_UNREACHABLE, "DataStagingDied", text, tail=tail)
