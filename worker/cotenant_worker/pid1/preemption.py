"""How a pod's ranks leave: a notice, the grace period, then SIGKILL."""

from __future__ import annotations

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
from cotenant_worker.supervision.leave_budget import leave_budget_s
from cotenant_worker.supervision.messages import PodEvent, SafePoints


@dataclass(slots=True)
class Preemption:
    contract: Contract
    ranks: LocalRanks
    ray: RayProcesses
    board: ProgressBoard
    emit: Callable[[PodEvent], None]
    started: bool = False
    """True if the pod itself was asked to leave. A group that changes its size asks only its ranks."""
    killed_ranks: tuple[int, ...] = ()
    """Ranks that had to be killed."""
    _calls_at: tuple[float, int] = (0.0, 0)

    def sample_calls(self, now: float) -> None:
        """Note how many safe points the ranks have passed. From the rate follows one that is ahead of all ranks."""
        calls = [run.counters.get("calls") for run in self.ranks.running.values()]
        if calls:
            self._calls_at = (now, max(calls))

    def start(self) -> bool:
        """Ask the ranks to leave for good. False if that was done before."""
        if self.started:
            return False
        self.started = True
        self.board.state = "saving"
        self.request_stop("preempt")
        return True

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
            return  # Ray Train passes the notice on to its workers, once Ray drains
        at, before = self._calls_at
        calls = self.ranks.terminate()
        now = time.monotonic()
        rate = max(0.0, (max(calls.values(), default=0) - before) / (now - at)) if at else 0.0
        self.emit(SafePoints(calls, rate))

    async def wait_for_ranks(self) -> None:
        """Wait until the ranks have left, and kill those whose time is over."""
        if self.contract.mode == "rayTrain":
            await self.ray.drain(leave_budget_s(self.contract))
        else:
            await self.ranks.wait_until_gone(leave_budget_s(self.contract))
        self.killed_ranks = tuple(sorted(self.ranks.running))
        await self.ranks.kill(1 << 30)

    def as_preempted(self, finish: Finish) -> Finish:
        """The verdict of a pod that was asked to leave: what is saved, and which ranks had to be killed."""
        parts = [finish.message, _checkpoint_line(last_saved(self.contract, self.board))]
        if self.killed_ranks:
            who = (
                f"rank {self.killed_ranks[0]}"
                if len(self.killed_ranks) == 1
                else f"ranks {', '.join(map(str, self.killed_ranks))}"
            )
            parts.append(
                f"{who} did not leave within {leave_budget_s(self.contract):.0f} s and had to be killed: a program is"
                " expected to heed SIGTERM or should_stop()"
            )
        return replace(finish, code=names.EXIT_PREEMPTED, reason="Preempted", message="; ".join(parts))


def _checkpoint_line(step: int | None) -> str:
    return "no checkpoint is known" if step is None else f"its checkpoint of step {step} is kept"
