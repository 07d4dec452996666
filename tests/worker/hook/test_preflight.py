"""The check before step 0: a rank is only called slow if it still is after a moment."""

import time

import pytest

from cotenant_worker.hook.cotenant_shim import preflight


@pytest.mark.parametrize(
    ("first", "later", "want", "measured"),
    [
        pytest.param(0.006, [], 0.006, 0, id="as quick as the rest"),
        pytest.param(0.020, [], 0.020, 0, id="some milliseconds more are noise"),
        pytest.param(0.300, [0.200, 0.006], 0.006, 2, id="held up for a moment"),
        pytest.param(0.300, [0.200, 0.250, 0.210, 0.220], 0.200, 4, id="slow however often one asks"),
    ],
)
def test_a_rank_that_looks_slow_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, first: float, later: list[float], want: float, measured: int
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    assert preflight._remeasured(first, 0.005, lambda: later.pop(0)) == want
    assert (len(pauses), later) == (measured, [])
