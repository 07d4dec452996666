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


@pytest.fixture
async def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv(layout.ENV_STATE, str(tmp_path))
    obeyed: list[dict[str, Any]] = []

    async def obey(message: dict[str, Any]) -> None:
        obeyed.append(message)

    made = EventBus(ProgressBoard(), False, lambda _what: None, obey, lambda: None, lambda: None, lambda _beat: None)
    server = await made.open()
    yield made, obeyed
    server.close()


async def actor() -> Channel:
    channel = await Channel.connect(layout.socket_path(), 10.0)
    channel.send({"op": "hello", "role": "actor"})
    return channel


async def heard(channel: Channel, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        async for message in channel:
            found.append(message)
            if len(found) == count:
                break
    return found


async def test_a_second_actor_hears_again_what_decides_and_how_long_ago_it_was(board: Any) -> None:
    made, _ = board
    made.emit({"op": "ready", "ip": "10.0.0.1"})
    first = await actor()
    assert [event["op"] for event in await heard(first, 1)] == ["ready"]
    made.emit({"op": "exit", "exit": {"rank": 1}, "age": 0.5})
    made.emit({"op": "beats", "beats": []})
    assert [event["op"] for event in await heard(first, 2)] == ["exit", "beats"]
    first.close()
    second = await actor()
    again = await heard(second, 2)
    assert [event["op"] for event in again] == ["ready", "exit"]
    assert again[1]["age"] > 0.5


async def test_what_ranks_report_meanwhile_is_kept_and_beats_are_not(board: Any) -> None:
    made, _ = board
    made.emit({"op": "reports", "items": [1]})
    made.emit({"op": "beats", "beats": []})
    made.emit({"op": "reports", "items": [2]})
    assert [event["items"] for event in await heard(await actor(), 2)] == [[1], [2]]


async def test_a_pod_that_nobody_hears_any_more_ends_by_itself(board: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, obeyed = board
    monkeypatch.setattr(event_bus, "_NO_ACTOR_S", 0.1)
    (await actor()).close()
    async with asyncio.timeout(20):
        while not obeyed:  # noqa: ASYNC110 - a timer of the loop, not an event of ours
            await asyncio.sleep(0.01)
    assert obeyed == [{"op": "head-silent", "for_s": 0.1}]
