"""One replica: what the probes are told, and what leadership changes."""

from __future__ import annotations

import time

import pytest

from cotenant.controller import replica as replica_module
from cotenant.controller.replica import Operator
from tests.controller.execution.replica import Replica, simulate_time, submit

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
        operator.leadership.changed(leads)
        seen.append((operator.metrics.registry.get_sample_value("cotenant_leader"), operator.loop.wake_up.is_set()))
    assert seen == [(1.0, True), (0.0, True)]


def known_to_a_leader(operator: Operator) -> list[bool]:
    """Whether each part has something that is true only while this replica leads."""
    return [
        operator.queue_status_writer._last is not None,
        operator.local_queue_writer._snapshot is not None,
        operator.start_estimates._snapshot is not None,
        operator.questions._subject is not None,
        operator.decision_recorder._last is not None,
        operator.loop._restored,
        operator.budgets._read_at > 0,
    ]


async def test_each_part_forgets_what_only_a_leader_knows_when_another_replica_leads() -> None:
    replica = Replica()
    submit(replica.kube)
    await replica.run()
    replica.operator.budgets._read_at = 7  # no queue here has a budget
    before = known_to_a_leader(replica.operator)
    replica.operator.leadership.changed(False)
    assert (before, known_to_a_leader(replica.operator)) == ([True] * 7, [False] * 7)
