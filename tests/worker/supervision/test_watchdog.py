"""Hangs and stalls of a running group become warnings, then failures. Times in seconds; ranks started at 0."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.supervision.commands import KillRanks
from cotenant_worker.supervision.conductor import Conductor
from cotenant_worker.supervision.failure_cause import RankExit
from cotenant_worker.supervision.hangs import RankHeartbeat
from cotenant_worker.supervision.messages import PodReady, RankExited
from tests.support.pod_sandbox import contract


class Told:
    """The pods of an attempt, as far as the conductor talks to them."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.commands: list[Any] = []

    async def send(self, pod: int, message: Any) -> None:
        self.commands.append(message)

    def send_to_head(self, message: Any) -> None:
        self.texts.append(
            message.text.partition(":")[0].removeprefix("the program has made no step, report or collective ")
        )


@pytest.mark.parametrize(
    ("platform", "turns", "texts", "ends_at"),
    [
        ({}, {}, ["for 120 s", "for 240 s", "for 480 s"], None),
        ({}, {300.0: 8}, ["for 120 s", "for 240 s", "", "for 120 s"], None),
        ({"stallTimeoutSeconds": 300}, {}, ["for 120 s", "for 240 s"], 300.0),
        ({"stallTimeoutSeconds": 60}, {}, ["for 60 s"], 60.0),
        ({"mode": "rayTrain"}, {}, [], None),
    ],
    ids=[
        "said ever more seldom",
        "taken back and said again",
        "ended at the timeout",
        "a short timeout",
        "a driver of Ray Train",
    ],
)
async def test_a_standstill_is_said_and_ends_the_attempt_only_where_the_job_says_so(
    platform: dict[str, Any], turns: dict[float, int], texts: list[str], ends_at: float | None
) -> None:
    now = [0.0]
    pods = Told()
    mode = platform.get("mode", "command")
    conductor = Conductor(contract([1], command=("x",), mode=mode, platform=platform), pods, clock=lambda: now[0])
    await conductor.handle(0, PodReady("127.0.0.1"))
    turned, ended = 7, None
    while now[0] <= 500 and ended is None:
        turned = turns.get(now[0], turned)
        heartbeat = RankHeartbeat(0, 0, -1, loop_count=turned)
        await conductor.handle(0, heartbeat)
        await conductor._execute(conductor.watchdog.check_stalls())
        ended = now[0] if KillRanks(0) in pods.commands else None
        now[0] += 1.0
    assert (pods.texts, ended) == (texts, ends_at)


async def test_a_rank_that_waits_for_more_processes_than_the_job_has_ranks_is_told() -> None:
    now = [0.0]
    pods = Told()
    conductor = Conductor(contract([1], command=("x",)), pods, clock=lambda: now[0])
    await conductor.handle(0, PodReady("127.0.0.1"))
    told = {}
    for now[0] in (1.0, 20.0, 32.0, 60.0, 90.0):
        meets = now[0] < 90
        beat = RankHeartbeat(0, 0, -1, "train.py:9", rendezvous_count=1, in_rendezvous=meets, meeting=8 * meets)
        await conductor.handle(0, beat)
        await conductor._execute(conductor.watchdog.check_hangs())
        told[now[0]] = list(pods.texts)
    text = "rank 0 has waited 31 s at train.py"
    assert told == {1.0: [], 20.0: [], 32.0: [text], 60.0: [text], 90.0: [text, ""]}


async def test_collectives_that_do_not_fit_together_hang_for_as_long_as_any_other() -> None:
    now = [0.0]
    pods = Told()
    conductor = Conductor(contract([1, 1], command=("x",)), pods, clock=lambda: now[0])
    for pod in (0, 1):
        await conductor.handle(pod, PodReady("127.0.0.1"))
    ended = None
    while now[0] <= 1000 and ended is None:
        for rank, waits in enumerate(("all_reduce", "broadcast")):
            heartbeat = RankHeartbeat(rank, 0, 5, "a.py:1", loop_count=1, collective=waits)
            await conductor.handle(rank, heartbeat)
        await conductor._execute(conductor.watchdog.check_hangs())
        await conductor._execute(conductor.watchdog.check_stalls())
        ended = now[0] if KillRanks(0) in pods.commands else None
        now[0] += 1.0
    assert ended == 600.0
    assert pods.texts[0] == "all 2 ranks have waited 30 s in collectives that do not fit together"


async def test_a_pod_that_is_cut_off_is_not_a_program_that_stands_still() -> None:
    now = [0.0]
    pods = Told()
    job = contract([1, 1], command=("x",), platform={"stallTimeoutSeconds": 5})
    conductor = Conductor(job, pods, clock=lambda: now[0])
    for pod in (0, 1):
        await conductor.handle(pod, PodReady("127.0.0.1"))
        conductor.watchdog.record_contact(pod)
    now[0] = 10.0
    conductor.watchdog.record_contact(0)
    await conductor._execute(conductor.watchdog.check_stalls())
    assert KillRanks(0) not in pods.commands
    conductor.watchdog.record_contact(1)
    await conductor._execute(conductor.watchdog.check_stalls())
    assert KillRanks(0) in pods.commands


@pytest.mark.parametrize(("code", "last"), [(0, ""), (1, "since it started 130 s ago")])
async def test_what_was_said_of_a_standstill_is_taken_back_when_the_job_completes(code: int, last: str) -> None:
    now = [0.0]
    pods = Told()
    conductor = Conductor(contract([1], command=("x",)), pods, clock=lambda: now[0])
    await conductor.handle(0, PodReady("127.0.0.1"))
    for now[0] in (1.0, 131.0):
        await conductor.handle(0, RankHeartbeat(0, 0, -1))
    await conductor._execute(conductor.watchdog.check_stalls())
    ended = RankExit(0, 0, code, None, now[0])
    await conductor.handle(0, RankExited(ended, age_s=0.0))
    await conductor._execute(conductor.supervisor.tick(140.0))
    assert pods.texts[-1] == last


@pytest.mark.parametrize(("quiet_s", "hangs"), [(1.0, True), (20.0, False)])
async def test_a_rank_whose_whole_pod_is_silent_does_not_hang(quiet_s: float, hangs: bool) -> None:
    now = [0.0]
    job = contract([1, 1], command=("x",), platform={"hangTimeoutSeconds": 8})
    sent: list[Any] = []

    async def send(pod: int, message: Any) -> None:
        sent.append(message)

    pods: Any = SimpleNamespace(send=send, send_to_head=lambda message: None)
    conductor = Conductor(job, pods, clock=lambda: now[0])
    for pod in (0, 1):
        await conductor.handle(pod, PodReady("127.0.0.1"))
    now[0] = 30.0 - quiet_s
    conductor.watchdog.record_contact(1)
    now[0] = 1.0
    await conductor.handle(1, RankHeartbeat(1, 0, 4))
    await conductor.handle(0, RankHeartbeat(0, 0, 5))
    now[0] = 30.0
    await conductor.handle(0, RankHeartbeat(0, 0, 5))
    sent.clear()
    await conductor._execute(conductor.watchdog.check_hangs())
    assert sent == ([KillRanks(0), KillRanks(0)] if hangs else [])


async def test_a_rank_that_ended_after_the_last_collective_is_not_behind() -> None:
    """Its last heartbeat is older than its end: half a second, a few collectives."""
    now = [0.0]
    pods = Told()
    conductor = Conductor(contract([1, 1], command=("x",)), pods, clock=lambda: now[0])
    for pod in (0, 1):
        await conductor.handle(pod, PodReady("127.0.0.1"))
    await conductor.handle(1, RankHeartbeat(1, 0, 249))
    await conductor.handle(1, RankExited(RankExit(1, 0, 0, None, 0.0, sequence=256), age_s=0.0))
    for now[0] in (1.0, 700.0):
        await conductor.handle(0, RankHeartbeat(0, 0, 256, "train.py:40 in export", collective="barrier"))
        await conductor._execute(conductor.watchdog.check_hangs())
    assert (pods.texts, KillRanks(0) in pods.commands) == ([], False)
