"""The relay between driver and launcher, against a socket that plays the launcher; no Ray."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cotenant_worker.host import layout
from cotenant_worker.messaging.json_lines import Channel
from cotenant_worker.ray_cluster import pod_actor
from cotenant_worker.supervision.messages import MESSAGES, ForwardedReport, HeadSilent, Hello, Message, PodLost
from cotenant_worker.supervision.rank_reports import StepReport


class Ear:
    """A launcher that listens and can speak."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Message] = asyncio.Queue()
        self.channel: Channel[Message] | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.channel = Channel(reader, writer, MESSAGES)
        async for message in self.channel:
            self.heard.put_nowait(message)


@pytest.fixture
async def ear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv(layout.ENV_STATE, str(tmp_path))
    found = Ear()
    server = await asyncio.start_unix_server(found.serve, str(layout.socket_path()))
    yield found
    server.close()


async def test_a_head_that_asks_for_nothing_any_more_is_reported_to_the_launcher(
    ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_actor, "_DRIVER_SILENT_S", 0.1)
    await pod_actor.PodActor().attach()
    assert [await asyncio.wait_for(ear.heard.get(), 20) for _ in range(2)] == [
        Hello("actor"),
        HeadSilent(0.1),
    ]


async def test_events_come_in_batches_and_the_launchers_end_is_one(ear: Ear) -> None:
    relay = pod_actor.PodActor()
    await relay.attach()
    await asyncio.wait_for(ear.heard.get(), 20)
    assert ear.channel is not None
    for number in range(3):
        ear.channel.send(ForwardedReport(StepReport(0, number), 1.0))
    ear.channel.close()
    found: list[Any] = []
    while not any(isinstance(event, PodLost) for event in found):
        found += await asyncio.wait_for(relay.events(), 20)
    assert found == [
        *(ForwardedReport(StepReport(0, number), 1.0) for number in range(3)),
        PodLost("its launcher ended"),
    ]
