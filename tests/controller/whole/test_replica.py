"""One replica: what the probes are told, and what leadership changes."""

from __future__ import annotations

import time

import pytest

from cotenant.controller import replica as replica_module
from tests.controller.execution.replica import Replica, simulate_time

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


async def test_a_loop_that_gives_no_sign_of_life_is_not_alive() -> None:
    operator = Replica().operator
    operator.loop.last_alive = time.monotonic() - replica_module.STUCK_S + 1.0
    alive = operator.alive()
    operator.loop.last_alive -= 2.0
    assert (alive, operator.alive()) == ("", "the scheduling loop gave no sign of life for 61 s")


async def test_a_replica_is_ready_once_it_has_listed_the_cluster() -> None:
    operator = Replica().operator
    before = operator.ready()
    await operator.feed.resync()
    assert (before, operator.ready()) == ("the cluster has not been listed yet", "")


async def test_the_gauge_of_the_leader_follows_leadership_and_each_change_wakes_the_loop() -> None:
    operator = Replica().operator
    seen = []
    for leads in (True, False):
        operator.loop.wake_up.clear()
        operator.on_leadership(leads)
        seen.append((operator.metrics.registry.get_sample_value("cotenant_leader"), operator.loop.wake_up.is_set()))
    assert seen == [(1.0, True), (0.0, True)]
