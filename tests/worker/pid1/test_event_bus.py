"""The launcher's end of the pod's socket: what a new actor hears again. A real socket; no Ray."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cotenant_worker.host import layout
from cotenant_worker.messaging.json_lines import Channel
from cotenant_worker.pid1 import event_bus
from cotenant_worker.pid1.event_bus import EventBus
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.supervision.failure_cause import RankExit
from cotenant_worker.supervision.hangs import RankHeartbeat
from cotenant_worker.supervision.messages import (
    MESSAGES,
    ForwardedReport,
    HeadSilent,
    Hello,
    Message,
    PodCommand,
    PodReady,
    PodStaging,
    RankExited,
)
from cotenant_worker.supervision.rank_reports import StepReport

LEFT = RankExit(1, 0, 0, None, 7.0)


@pytest.fixture
async def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv(layout.ENV_STATE, str(tmp_path))
    obeyed: list[PodCommand] = []

    async def obey(message: PodCommand) -> None:
        obeyed.append(message)

    made = EventBus(ProgressBoard(), False, lambda _what: None, obey, lambda: None, lambda: None, lambda _beat: None)
    server = await made.open()
    yield made, obeyed
    server.close()


async def actor() -> Channel[Message]:
    channel = await Channel.connect(layout.socket_path(), MESSAGES, 10.0)
    channel.send(Hello("actor"))
    return channel


async def heard(channel: Channel[Message], count: int) -> list[Message]:
    found: list[Message] = []
    async with asyncio.timeout(20):
        async for message in channel:
            found.append(message)
            if len(found) == count:
                break
    return found


async def test_a_second_actor_hears_again_what_decides_and_how_long_ago_it_was(board: Any) -> None:
    made, _ = board
    made.emit(PodReady("10.0.0.1"))
    first = await actor()
    assert await heard(first, 1) == [PodReady("10.0.0.1")]
    made.emit(RankExited(LEFT, age_s=0.5))
    made.emit(RankHeartbeat(0, 0, -1))
    assert [type(event) for event in await heard(first, 2)] == [RankExited, RankHeartbeat]
    first.close()
    second = await actor()
    again = await heard(second, 2)
    assert again[0] == PodReady("10.0.0.1")
    assert isinstance(again[1], RankExited)
    assert (again[1].exit, again[1].age_s > 0.5) == (LEFT, True)


async def test_an_actor_that_comes_when_all_data_is_there_hears_how_much_it_was(board: Any) -> None:
    made, _ = board
    fetching, done = PodStaging(1, 10, 40, done=False), PodStaging(1, 40, 40, done=True)
    made.emit(fetching)
    made.emit(done)
    made.emit(PodReady("10.0.0.1"))
    assert await heard(await actor(), 2) == [done, PodReady("10.0.0.1")]


async def test_what_ranks_report_meanwhile_is_kept_and_beats_are_not(board: Any) -> None:
    made, _ = board
    made.emit(ForwardedReport(StepReport(0, 1), 1.0))
    made.emit(RankHeartbeat(0, 0, -1))
    made.emit(ForwardedReport(StepReport(0, 2), 2.0))
    assert await heard(await actor(), 2) == [
        ForwardedReport(StepReport(0, 1), 1.0),
        ForwardedReport(StepReport(0, 2), 2.0),
    ]


async def test_a_pod_that_nobody_hears_any_more_ends_by_itself(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, obeyed = board
    monkeypatch.setattr(event_bus, "_NO_ACTOR_S", 0.1)
    (await actor()).close()
    async with asyncio.timeout(20):
        while not obeyed:  # noqa: ASYNC110 - a timer of the loop, not an event of ours
            await asyncio.sleep(0.01)
    assert obeyed == [HeadSilent(0.1)]
