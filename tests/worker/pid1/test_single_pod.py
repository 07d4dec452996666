"""A group of one rank is conducted in its pod's first process: commands and messages arrive by calls."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cotenant_worker.pid1.single_pod import SinglePod
from cotenant_worker.supervision.failure_cause import RankExit
from cotenant_worker.supervision.messages import (
    FinishAttempt,
    ForwardedReport,
    HeadMessage,
    PodCommand,
    PodReady,
    RankExited,
    StartRanks,
)
from cotenant_worker.supervision.rank_reports import StepReport
from tests.support.pod_sandbox import contract


class Played:
    """A single pod whose launcher only keeps what it is asked for."""

    def __init__(self) -> None:
        self.commands: list[PodCommand] = []
        self.shown: list[HeadMessage] = []
        self.pod = SinglePod(contract([1], command=("x",)), self.execute, self.shown.append)

    async def execute(self, command: PodCommand) -> None:
        self.commands.append(command)


async def test_its_rank_is_started_once_the_pod_is_ready_and_not_before() -> None:
    played = Played()
    report = ForwardedReport(StepReport(0, 7), received_unix_s=1.0)
    await played.pod.handle(report)
    assert (played.commands, played.shown) == ([], [report])
    await played.pod.handle(PodReady("127.0.0.1"))
    (command,) = played.commands
    assert isinstance(command, StartRanks)
    assert [rank.rank for rank in command.group.ranks] == [0]


@pytest.mark.parametrize(
    ("code", "verdict"),
    [(0, (0, "Completed")), (3, (3, "UserError"))],
    ids=["it ends well", "it fails"],
)
async def test_the_end_of_its_rank_is_the_verdict(code: int, verdict: tuple[int, str]) -> None:
    played = Played()
    await played.pod.handle(PodReady("127.0.0.1"))
    await played.pod.handle(RankExited(RankExit(0, 0, code, None, at=1.0), age_s=0.0))
    finish = await played.pod.conduct()
    assert (finish.code, finish.reason) == verdict
    assert played.commands[-1] == FinishAttempt(finish)


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("cotenant_worker.pid1.launcher", {"supervision.conductor", "supervision.supervisor", "parameter_server.pod"}),
        ("cotenant_worker.parameter_server.pod", {"supervision.conductor", "pid1.launcher", "ranks.rank_processes"}),
        ("cotenant_worker.pid1.entry", {"pid1.launcher", "parameter_server.pod"}),
    ],
)
def test_process_1_imports_nothing_of_what_another_kind_of_pod_needs(module: str, absent: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {f"cotenant_worker.{name}" for name in absent} & set(found) == set()
