"""The conductor brings events to the supervisor and its commands to the pods."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant_worker.supervision.commands import KillRanks
from cotenant_worker.supervision.conductor import Conductor
from cotenant_worker.supervision.failure_cause import RankExit
from cotenant_worker.supervision.messages import (
    FinishAttempt,
    ForwardedReport,
    HeadMessage,
    PodCommand,
    PodReady,
    Preempt,
    RankExited,
    RankStopped,
    Restarted,
    SafePoints,
    StartRanks,
    StopAtCall,
)
from cotenant_worker.supervision.rank_reports import ProgressWarning, StepReport
from tests.support.pod_sandbox import contract


class Pods:
    def __init__(self, unreachable: int | None = None) -> None:
        self.commands: list[tuple[int, PodCommand]] = []
        self.to_head: list[HeadMessage] = []
        self._unreachable = unreachable

    async def send(self, pod: int, message: PodCommand) -> None:
        if pod == self._unreachable:
            raise ConnectionError
        self.commands.append((pod, message))

    def send_to_head(self, message: HeadMessage) -> None:
        self.to_head.append(message)

    def taken(self) -> list[tuple[int, PodCommand]]:
        found, self.commands = self.commands, []
        return found


async def running(pods: Pods, **fields: Any) -> Conductor:
    """Two pods with a rank each, which have started."""
    conductor = Conductor(contract([1, 1], command=("x",), **fields), pods, clock=lambda: 10.0)
    for pod in (0, 1):
        await conductor.handle(pod, PodReady("127.0.0.1"))
    assert [(pod, type(command)) for pod, command in pods.taken()] == [
        (pod, StartRanks) for pod in (0, 1) if pod != pods._unreachable
    ]
    return conductor


async def test_every_pod_gets_the_start_once_all_are_there_and_a_pod_that_is_gone_keeps_no_other_from_it() -> None:
    await running(Pods())
    await running(Pods(unreachable=0))


async def test_ranks_agree_on_the_call_at_which_they_leave_once_every_pod_has_reported() -> None:
    pods = Pods()
    conductor = await running(pods)
    await conductor.handle(1, Preempt())
    assert pods.taken() == [(0, Preempt()), (1, Preempt())]
    await conductor.handle(1, Preempt())
    assert pods.taken() == []
    await conductor.handle(0, SafePoints({0: 100}, calls_per_s=2.0))
    assert pods.taken() == []
    await conductor.handle(1, SafePoints({1: 103}, calls_per_s=20.0))
    assert pods.taken() == [(0, StopAtCall(114)), (1, StopAtCall(114))]
    await conductor.handle(0, SafePoints({0: 104}, calls_per_s=2.0))
    assert pods.taken() == []


async def test_a_killed_rank_starts_again_and_the_head_shows_it() -> None:
    pods = Pods()
    conductor = await running(pods)
    await conductor.handle(0, RankExited(RankExit(0, 0, None, 9, at=1.0), age_s=0.0))
    await conductor._execute(conductor.supervisor.tick(11.0))
    assert pods.taken() == [(0, KillRanks(0)), (1, KillRanks(0))]
    await conductor.handle(1, RankExited(RankExit(1, 0, None, 9, at=1.0, stopped=True), age_s=0.0))
    (first, command), _ = pods.taken()
    assert isinstance(command, StartRanks)
    assert (first, command.group.generation, command.group.restart_count) == (0, 1, 1)
    assert [type(message) for message in pods.to_head] == [Restarted]


async def test_processes_that_a_rank_left_behind_are_a_warning_with_what_to_do() -> None:
    pods = Pods()
    conductor = await running(pods)
    await conductor.handle(1, RankExited(RankExit(1, 0, 0, None, at=1.0, left_behind=("cp a b", "sync")), age_s=0.0))
    assert pods.to_head == [
        ProgressWarning(
            "left-1",
            "rank 1 ended and left running: cp a b; sync. They were ended with it: let the program wait for what it"
            " starts in the background (in a shell: wait)",
        )
    ]


async def test_the_time_of_an_end_is_told_by_its_age_as_clocks_of_pods_differ() -> None:
    conductor = await running(Pods())
    await conductor.handle(1, RankExited(RankExit(1, 0, 0, None, at=7000.0), age_s=0.5))
    assert conductor.supervisor.exits[1].at == 9.5


@pytest.mark.parametrize(("generation", "hangs"), [(0, True), (1, False)])
async def test_a_stopped_rank_counts_in_its_own_generation_only(generation: int, hangs: bool) -> None:
    pods = Pods()
    conductor = await running(pods)
    await conductor.handle(1, RankStopped(1, generation, 60.0))
    assert pods.taken() == ([(0, KillRanks(0)), (1, KillRanks(0))] if hangs else [])


async def test_the_verdict_goes_to_every_pod_and_reports_to_the_head() -> None:
    pods = Pods()
    conductor = await running(pods)
    report = ForwardedReport(StepReport(1, 5), 1.0)
    await conductor.handle(1, report)
    for rank in (0, 1):
        await conductor.handle(rank, RankExited(RankExit(rank, 0, 0, None, at=1.0), age_s=0.0))
    verdict = conductor.verdict.result()
    assert (verdict.code, verdict.reason, pods.to_head) == (0, "Completed", [report])
    assert pods.taken() == [(0, FinishAttempt(verdict)), (1, FinishAttempt(verdict))]
