"""Meters of jobs: what was held until any moment."""

from __future__ import annotations

import pytest

from cotenant.decision_log.showback.meters import Meter, Span

OVER = Span(gpu_class="H100", milli=400, begun=100, ended=110, amount=4_200)
"""It ended half a second after its last whole second."""
NOW = Span(gpu_class="T4", milli=1000, begun=120)


@pytest.mark.parametrize(
    ("at", "held"), [(99, 7), (100, 7), (105, 2_007), (109, 3_607), (110, 4_207), (120, 4_207), (125, 9_207)]
)
def test_a_meter_counts_whole_seconds_and_of_what_is_over_exactly_what_was_charged(at: int, held: int) -> None:
    assert Meter(uid="a", queue="red", before=7, last=OVER, current=NOW).until(at) == held


def test_a_meter_tells_what_was_held_at_a_moment() -> None:
    meter = Meter(uid="a", queue="red", last=OVER, current=NOW)
    assert ([meter.held_at(at) for at in (99, 100, 109, 110, 120)], meter.held_milli) == ([0, 400, 400, 0, 1000], 1000)
    assert Meter(uid="a", queue="red").held_milli == 0
