"""The plugin in the agent's loop: what it publishes of itself, and that nothing of it ends the agent."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from cotenant_agent.device_plugin import turns as plugin_turns
from cotenant_agent.device_plugin.turns import PluginTurns
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.failures import Failures, Step
from cotenant_agent.reports import published_limits
from cotenant_agent.reports.node_view import NodeObserver
from tests.agent.device_plugin.fake_kubelet import FakeKubelet
from tests.agent.reports.observed import NOW, busy, make_observer

RESOURCES = [f"gpu.cotenant.dev/{kind}.gpu-{gpu}" for gpu in "ab" for kind in ("memory", "compute")]
NOT_SHOWN = f"the Node shows no {RESOURCES[0]}, 1000 were offered to the kubelet"


class FakeNode:
    """`capacity`: as the kubelet has published it."""

    def __init__(self) -> None:
        self.capacity: dict[str, str] = {}
        self.looks = 0
        self.error: Exception | None = None

    def node(self) -> dict[str, Any]:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return {"status": {"capacity": self.capacity}}


class Loop:
    """The agent's loop, by hand: a clock that the test moves, one kubelet, one Node."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.kubelet = FakeKubelet(folder / "device-plugins")
        self.cluster, self.failures = FakeNode(), Failures()
        self.observer: NodeObserver = make_observer()
        self.turns = PluginTurns(self.cluster.node, self.observer, folder, self.failures, lambda: self.now)

    def turn(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.turns.turn(self.observer.observe(busy(used=0), PodsOnNode(), NOW))

    def settle(self) -> None:
        """Registered, followed, and shown by the Node."""
        self.turn()
        self.kubelet.wait_for(dict.fromkeys(RESOURCES, 1000))
        self.cluster.capacity = dict.fromkeys(RESOURCES, "1k")
        self.turn(plugin_turns.LOOK_S)

    def published(self) -> dict[str, Any]:
        paths = published_limits.paths(self.observer.observe(busy(used=0), PodsOnNode(), NOW))
        return next(one for one in paths if one["path"] == "DevicePlugin")


@pytest.fixture
def loop() -> Iterator[Loop]:
    with tempfile.TemporaryDirectory(prefix="dp") as made:
        loop = Loop(Path(made))
        yield loop
        loop.turns.stop()
        loop.kubelet.kill()


def test_the_path_is_there_once_the_node_shows_what_was_registered(loop: Loop) -> None:
    loop.turn()
    loop.kubelet.wait_for(dict.fromkeys(RESOURCES, 1000))
    loop.turn()
    assert loop.published() == {"path": "DevicePlugin", "available": False, "reason": NOT_SHOWN}
    loop.settle()
    assert loop.published() == {"path": "DevicePlugin", "available": True, "reason": ""}


def test_a_node_that_shows_less_later_lowers_the_path(loop: Loop) -> None:
    loop.settle()
    loop.cluster.capacity = {}
    loop.turn(plugin_turns.LOOK_S)
    assert loop.published()["available"], "looked at again after a minute"
    loop.turn(plugin_turns.CONFIRMED_LOOK_S)
    assert loop.published() == {"path": "DevicePlugin", "available": False, "reason": NOT_SHOWN}


def test_an_api_server_that_is_silent_changes_nothing_of_what_was_seen(loop: Loop) -> None:
    loop.settle()
    loop.cluster.error = ApiException(status=503, reason="Service Unavailable")
    loop.turn(plugin_turns.CONFIRMED_LOOK_S)
    assert loop.published()["available"]


def test_a_node_that_was_never_read_shows_nothing(loop: Loop) -> None:
    loop.cluster.error = ApiException(status=503, reason="Service Unavailable")
    loop.turn()
    loop.kubelet.wait_for(dict.fromkeys(RESOURCES, 1000))
    loop.turn(plugin_turns.LOOK_S)
    assert loop.published()["reason"] == "the Node cannot be read: HTTP 503 Service Unavailable"


def test_a_kubelet_that_is_gone_is_the_reason_at_once(loop: Loop) -> None:
    loop.settle()
    loop.kubelet.kill()
    loop.turn(1)
    assert "there is no kubelet.sock in" in loop.published()["reason"]


def test_a_node_that_offers_claims_offers_no_shares_and_says_so(loop: Loop) -> None:
    loop.settle()
    loop.observer.no_claims = lambda: ""
    loop.turn(1)
    loop.kubelet.wait_for({})
    assert loop.published() == {"path": "DevicePlugin", "available": False, "reason": plugin_turns.CLAIMS}
    loop.observer.no_claims = lambda: "the driver has gone"
    loop.settle()
    assert loop.published()["available"]


def test_what_goes_wrong_is_counted_and_the_agent_goes_on(loop: Loop) -> None:
    loop.cluster.error = ValueError("not a Node")
    loop.turn()
    assert loop.failures.counts()[Step.DEVICE_PLUGIN] == 1
    loop.cluster.error = None
    loop.settle()
    assert loop.published()["available"]


def test_before_there_is_a_view_nothing_is_offered(loop: Loop) -> None:
    loop.turns.turn(None)
    assert loop.cluster.looks == 0
    assert loop.turns.reason() == "the device plugin has not been registered yet"
