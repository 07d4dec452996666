"""Price of a share: the larger dimension, rounded up."""

from __future__ import annotations

import pytest

from cotenant.core.model.share_cost import share_cost


@pytest.mark.parametrize(
    ("memory_mib", "compute_milli", "gpu_mib", "cost"),
    [
        pytest.param(30_720, 100, 81_920, 375, id="memory is larger"),
        pytest.param(30_720, 400, 81_920, 400, id="compute is larger"),
        pytest.param(1, 0, 81_920, 1, id="the smallest share costs something"),
        pytest.param(334, 0, 1_000, 334, id="exactly so much"),
        pytest.param(2, 0, 3, 667, id="rounded up"),
        pytest.param(81_920, 1_000, 81_920, 1_000, id="a whole GPU"),
        pytest.param(0, 0, 81_920, 0, id="nothing"),
        pytest.param(1, 0, 0, 1_000, id="a GPU whose memory is not known counts as one MiB"),
    ],
)
def test_a_share_costs(memory_mib: int, compute_milli: int, gpu_mib: int, cost: int) -> None:
    assert share_cost(memory_mib, compute_milli, gpu_mib) == cost
