"""All worlds of a bounded size: whatever comes and goes, they fall quiet, and nobody waits for longer than it is told.

All orders of two events are followed, then some states of every generation; all orders of four by
`COTENANT_EXAMPLES=10`, and of more by the command of `small_worlds`.
"""

from __future__ import annotations

import os

import pytest

from tests.core.worlds.small_worlds import WORLDS, World, follow

DEPTH, MOST = (4, None) if int(os.environ.get("COTENANT_EXAMPLES", "1")) > 1 else (7, 24)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_in_every_order_of_events(world: World) -> None:
    assert follow(world, DEPTH, most=MOST) > 1_000
