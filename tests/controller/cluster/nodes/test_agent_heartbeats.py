"""An agent is heard when what it writes is seen to change, whatever time it writes."""

from __future__ import annotations

import pytest

from cotenant.controller.cluster.nodes.agent_heartbeats import AgentHeartbeats

T = 1_000_000.0
FUTURE = T + 10**9


@pytest.mark.parametrize(
    ("beat", "written_at", "fresh_until"),
    [
        pytest.param(T - 50, None, T + 10, id="a status without the API server's time: the agent's own"),
        pytest.param(T, T - 50, T + 10, id="the API server's time before the agent's own"),
        pytest.param(FUTURE, T - 50, T + 10, id="in the future: the API server's time"),
        pytest.param(T, FUTURE, T + 60, id="an API server whose clock is ahead: no later than now"),
        pytest.param(T - 9999, T, T + 60, id="an agent whose clock is behind"),
        pytest.param(FUTURE, None, None, id="in the future, and nobody knows since when"),
        pytest.param(T, T - 61, None, id="written too long ago"),
        pytest.param(None, T, None, id="no heartbeat at all"),
    ],
)
def test_a_new_leader_goes_by_the_api_servers_clock(
    beat: float | None, written_at: float | None, fresh_until: float | None
) -> None:
    heartbeats = AgentHeartbeats()
    heartbeats.note("n1", beat, written_at, T)
    fresh = [heartbeats.is_fresh("n1", at) for at in (T, fresh_until or T, (fresh_until or T) + 1)]
    assert fresh == ([True, True, False] if fresh_until else [False] * 3)
    assert not heartbeats.is_fresh("n2", T)


def test_a_heartbeat_in_the_future_keeps_a_node_ready_no_longer_than_any_other() -> None:
    heartbeats = AgentHeartbeats()
    heartbeats.note("n1", T, T, T)
    heartbeats.note("n1", FUTURE, T + 15, T + 15)
    for later in (T + 30, T + 60, T + 75):
        heartbeats.note("n1", FUTURE, T + 15, later)
    assert [heartbeats.is_fresh("n1", at) for at in (T + 75, T + 76, FUTURE)] == [True, False, False]
    heartbeats.note("n1", T + 90, T + 90, T + 90)
    assert heartbeats.is_fresh("n1", T + 150)


def test_after_another_has_led_nothing_counts_as_seen() -> None:
    heartbeats = AgentHeartbeats()
    heartbeats.note("n1", T, None, T)
    heartbeats.forget()
    heartbeats.note("n1", T + 15, T + 15, T + 500)
    assert not heartbeats.is_fresh("n1", T + 500)


def test_an_agent_that_writes_less_often_may_be_silent_for_longer() -> None:
    heartbeats = AgentHeartbeats()
    heartbeats.note("n1", T, T, T, 200.0)
    assert [heartbeats.is_fresh("n1", at) for at in (T + 200, T + 201)] == [True, False]
