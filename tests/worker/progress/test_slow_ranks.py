"""Which ranks are slow by themselves: three times the usual and twenty milliseconds more, both."""

from __future__ import annotations

import pytest

from cotenant_worker.progress.slow_ranks import slow_ranks


@pytest.mark.parametrize(
    ("own_ms", "suspect"),
    [
        pytest.param({}, {}, id="nobody was measured"),
        pytest.param({0: 900.0}, {}, id="one rank is as usual as can be"),
        pytest.param({0: 10.0, 1: 100.0, 2: 11.0}, {1: (100.0, 11.0)}, id="one in three"),
        pytest.param({0: 100.0, 1: 10.0}, {0: (100.0, 10.0)}, id="of two the quicker one is usual"),
        pytest.param({0: 1.0, 1: 20.0, 2: 1.0}, {}, id="many times slower, by less than a machine's noise"),
        pytest.param({0: 1.0, 1: 21.0, 2: 1.0}, {}, id="the noise is its bound"),
        pytest.param({0: 100.0, 1: 290.0, 2: 100.0}, {}, id="much longer, and not three times"),
        pytest.param({0: 100.0, 1: 300.0, 2: 100.0}, {}, id="three times is its bound"),
        pytest.param({0: 100.0, 1: 301.0, 2: 100.0}, {1: (301.0, 100.0)}, id="just over both"),
        pytest.param({3: 90.0, 2: 95.0, 1: 10.0, 0: 10.0}, {2: (95.0, 10.0), 3: (90.0, 10.0)}, id="half of them"),
    ],
)
def test_a_rank_is_suspect_that_is_far_slower_than_usual(
    own_ms: dict[int, float], suspect: dict[int, tuple[float, float]]
) -> None:
    assert slow_ranks(own_ms) == suspect
