"""Times of a session: its own, within what its queue and the queues above allow."""

from __future__ import annotations

import pytest

from cotenant.api.conversion.to_core import parse_session
from cotenant.api.resources.queues import Queue
from cotenant.controller.composites.sessions.times import times_of
from tests.controller.composites.sessions.builders import SessionStory, queue

HOUR = 3600


@pytest.mark.parametrize(
    ("queues", "idle", "lifetime"),
    [
        pytest.param([], (2 * HOUR, "spec.idleTimeout: 2h"), (24 * HOUR, "spec.maxLifetime: 24h"), id="no queue"),
        pytest.param(
            [queue("red", idleTimeout="30m", maxLifetime="8h")],
            (HOUR // 2, "queue red allows spec.idleTimeout: 30m"),
            (8 * HOUR, "queue red allows spec.maxLifetime: 8h"),
            id="a queue that allows less",
        ),
        pytest.param(
            [queue("red", idleTimeout="2h", maxLifetime="48h")],
            (2 * HOUR, "spec.idleTimeout: 2h"),
            (24 * HOUR, "spec.maxLifetime: 24h"),
            id="a queue that allows more",
        ),
        pytest.param(
            [queue("red", "top", idleTimeout="90m"), queue("top", idleTimeout="1h", maxLifetime="12h")],
            (HOUR, "queue top allows spec.idleTimeout: 1h"),
            (12 * HOUR, "queue top allows spec.maxLifetime: 12h"),
            id="the one above allows less",
        ),
        pytest.param(
            [queue("red", "blue"), queue("blue", "red", maxLifetime="6h")],
            (2 * HOUR, "spec.idleTimeout: 2h"),
            (6 * HOUR, "queue blue allows spec.maxLifetime: 6h"),
            id="a circle of parents",
        ),
    ],
)
def test_the_shortest_time_holds_and_names_who_says_so(
    queues: list[Queue], idle: tuple[int, str], lifetime: tuple[int, str]
) -> None:
    session = parse_session(SessionStory(idleTimeout="2h", maxLifetime="24h").document)
    found = times_of(session.spec, {one.metadata.final_name: one for one in queues})
    assert (found.idle.seconds, found.idle.source) == idle
    assert (found.lifetime.seconds, found.lifetime.source) == lifetime
