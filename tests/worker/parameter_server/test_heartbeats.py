"""The end of a server's link in rank 0's pod: who is let in, and what the conductor hears. Real sockets."""

from __future__ import annotations

import asyncio

import pytest

from cotenant_worker.host import layout
from cotenant_worker.messaging.hmac_handshake import authenticate_to_server_stream, secret_of
from cotenant_worker.messaging.json_lines import Channel
from cotenant_worker.parameter_server import heartbeats
from cotenant_worker.parameter_server.heartbeats import ServerLinks
from cotenant_worker.supervision.commands import Finish
from cotenant_worker.supervision.messages import (
    MESSAGES,
    FinishAttempt,
    Message,
    PodEvent,
    Preempt,
    ServerGone,
    ServerHello,
    ServerLost,
    ServerReady,
)
from tests.support.pod_sandbox import contract
from tests.worker.processes import address_of_its_own

JOB = contract([1], servers=("s0", "s1"))
SECRET = secret_of("token", JOB.uid, JOB.attempt)


class Head:
    def __init__(self) -> None:
        self.address = address_of_its_own()
        self.events: asyncio.Queue[PodEvent] = asyncio.Queue()
        self.links = ServerLinks(JOB, {"RAY_AUTH_TOKEN": "token"}, self.events.put_nowait)

    async def joined_by(self, server: int, secret: str = SECRET) -> Channel[Message]:
        reader, writer = await asyncio.open_connection(self.address, layout.LINK_PORT)
        await authenticate_to_server_stream(reader, writer, secret)
        channel = Channel(reader, writer, MESSAGES)
        channel.send(ServerHello(server))
        return channel

    async def next(self) -> PodEvent:
        return await asyncio.wait_for(self.events.get(), 60)


@pytest.fixture
async def head() -> Head:
    made = Head()
    await made.links.open(made.address)
    return made


async def said_to(channel: Channel[Message]) -> list[Message]:
    """What the other side sends until it goes."""
    return [message async for message in channel]


async def test_a_server_is_there_until_its_connection_ends(head: Head) -> None:
    link = await head.joined_by(1)
    assert await head.next() == ServerReady(1)
    link.close()
    assert await head.next() == ServerLost(1, "its connection ended")


async def test_a_server_may_say_why_it_goes_and_that_it_was_asked_to(head: Head) -> None:
    link = await head.joined_by(0)
    link.send(Preempt())
    link.send(ServerGone("out of memory"))
    link.close()
    assert [await head.next() for _ in range(3)] == [
        ServerReady(0),
        Preempt(),
        ServerLost(0, "out of memory"),
    ]


async def test_a_server_that_is_silent_is_lost_though_its_connection_stands(
    head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "HEARTBEAT_TIMEOUT_S", 0.2)
    link = await head.joined_by(0)
    assert isinstance(await head.next(), ServerReady)
    lost = await head.next()
    assert isinstance(lost, ServerLost)
    assert lost.why.startswith("it has not been heard of for")
    link.close()


async def test_a_stranger_is_turned_away_and_nobody_hears_of_him(head: Head) -> None:
    stranger = await head.joined_by(0, secret="guessed")
    assert await said_to(stranger) == []
    await head.joined_by(1)
    assert await head.next() == ServerReady(1)


async def test_a_second_one_of_a_name_is_turned_away(head: Head) -> None:
    first = await head.joined_by(0)
    assert isinstance(await head.next(), ServerReady)
    assert await said_to(await head.joined_by(0)) == []
    await head.links.finish(Finish(0, "Completed", ""))
    first.close()
    assert head.events.empty()


async def test_the_verdict_is_told_and_who_leaves_then_is_not_lost(head: Head) -> None:
    link = await head.joined_by(0)
    assert isinstance(await head.next(), ServerReady)
    await head.links.finish(Finish(3, "UserError", "rank 0 has had enough"))
    async for message in link:
        if isinstance(message, FinishAttempt):
            assert message.verdict.code == 3
            break
    link.close()
    await head.joined_by(1)
    assert await head.next() == ServerReady(1)
