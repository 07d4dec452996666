"""How a pod's ranks leave when they are asked to: told, given the grace period, then killed. For the launcher."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from cotenant import names
from cotenant.contract import Contract
from cotenant_worker.host import layout
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.progress.termination import last_saved
from cotenant_worker.ranks.rank_processes import LocalRanks
from cotenant_worker.ray_cluster.processes import RayProcesses
from cotenant_worker.supervision.commands import Finish
from cotenant_worker.supervision.messages import PodEvent, SafePoints
from cotenant_worker.supervision.supervisor import leave_budget_s

_SAMPLE_S = 0.5


@dataclass(slots=True)
class Preemption:
    contract: Contract
    ranks: LocalRanks
    ray: RayProcesses
    board: ProgressBoard
    emit: Callable[[PodEvent], None]
    started: bool = False
    """The pod itself was asked to leave; a world that changes its size asks its ranks only."""
    killed_ranks: tuple[int, ...] = ()
    """Ranks that had to be killed."""
    _calls_at: tuple[float, int] = (0.0, 0)

    async def sample_calls(self) -> None:
        """For ever: how often ranks pass a safe point, so that all can agree on one that none has passed."""
        while True:
            await asyncio.sleep(_SAMPLE_S)
            calls = [run.counters.get("calls") for run in self.ranks.running.values()]
            if calls:
                self._calls_at = (time.monotonic(), max(calls))

    def request_stop(self, why: str) -> None:
        left = leave_budget_s(self.contract)
        document = {"reason": why, "deadline": time.time() + left, "seconds": left}
        aside = layout.preempt_file().with_suffix(".tmp")
        try:
            aside.write_text(json.dumps(document))
            aside.rename(layout.preempt_file())
        except OSError as error:  # a program that filled the disk: signals and cells reach the ranks all the same
            self.board.warn("preempt-file", f"{layout.preempt_file()} could not be written: {error.strerror}")
        if self.contract.mode == "rayTrain":
            return  # Ray Train tells its workers itself, once Ray drains
        at, before = self._calls_at
        calls = self.ranks.terminate()
        now = time.monotonic()
        rate = max(0.0, (max(calls.values(), default=0) - before) / (now - at)) if at else 0.0
        self.emit(SafePoints(calls, rate))

    async def wait_for_ranks(self) -> None:
        """Return when our ranks have left, or when their time is over and they are killed."""
        if self.contract.mode == "rayTrain":
            await self.ray.drain(leave_budget_s(self.contract))
        else:
            await self.ranks.wait_until_gone(leave_budget_s(self.contract))
        self.killed_ranks = tuple(sorted(self.ranks.running))
        await self.ranks.kill(1 << 30)

    def as_preempted(self, finish: Finish) -> Finish:
        """However it ended, it was asked to; what is saved, and what became of ranks that did not leave in time."""
        said = [finish.message, _checkpoint_line(last_saved(self.contract, self.board))]
        if self.killed_ranks:
            who = (
                f"rank {self.killed_ranks[0]}"
                if len(self.killed_ranks) == 1
                else f"ranks {', '.join(map(str, self.killed_ranks))}"
            )
            said.append(
                f"{who} did not leave within {leave_budget_s(self.contract):.0f} s and had to be killed: a program is"
                " expected to heed SIGTERM or should_stop()"
            )
        return replace(finish, code=names.EXIT_PREEMPTED, reason="Preempted", message="; ".join(said))


def _checkpoint_line(step: int | None) -> str:
    return "no checkpoint is known of" if step is None else f"its checkpoint of step {step} is kept"
