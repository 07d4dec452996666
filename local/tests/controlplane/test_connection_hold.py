"""Connections that wait for the API server: held once, and let go when it is ready."""

import asyncio
from typing import Any

import pytest

from cotenant_local.controlplane import connection_hold, network
from cotenant_local.controlplane.connection_hold import ConnectionHold


class PlayedApi:
    """Is ready when it was asked so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def ready(self) -> bool:
        self.left -= 1
        return self.left <= 0


async def ended(hold: ConnectionHold) -> None:
    assert hold._releasing is not None
    await hold._releasing


async def test_connections_are_held_until_the_server_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    log: list[str] = []
    monkeypatch.setattr(network, "hold_api", lambda _, *, held: told.append(held))
    monkeypatch.setattr(connection_hold, "POLL_S", 0)
    api: Any = PlayedApi(3)
    hold = ConnectionHold(api, "10.89.0.1", log.append)
    hold.hold()
    hold.hold()  # dies again before it was ready
    await ended(hold)
    assert (told, log, api.left) == ([True, True, False], ["kube-apiserver is ready again"], 0)
    api.left = 1
    hold.hold()
    await ended(hold)
    assert (told[3:], len(log)) == ([True, False], 2)


async def test_where_connections_cannot_be_held_the_log_has_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str, *, held: bool) -> None:
        raise network.ClusterNetworkError("no nft")

    monkeypatch.setattr(network, "hold_api", refuse)
    log: list[str] = []
    api: Any = PlayedApi(1)
    ConnectionHold(api, "10.89.0.1", log.append).hold()
    await asyncio.sleep(0)
    assert (log, api.left) == (["clients are refused while the API server is away: no nft"], 1)
