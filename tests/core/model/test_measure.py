"""Dimensions of quotas: each has an amount, a measure and a limit, at the same place."""

from __future__ import annotations

import pytest

from cotenant.core.model.measure import OF_QUEUE, OF_USER, Amounts, Measure
from cotenant.core.model.objects import Quota, UserLimit


@pytest.mark.parametrize(
    ("measures", "limits"),
    [
        pytest.param(OF_QUEUE, Quota(limit=1, memory_limit_mib=2).limits, id="quota lines"),
        pytest.param(OF_USER, UserLimit(limit=1, memory_limit_mib=2).limits, id="user limits"),
    ],
)
def test_each_dimension_has_a_measure_and_a_limit_in_the_order_of_amounts(
    measures: tuple[Measure, ...], limits: tuple[int | None, ...]
) -> None:
    assert limits == Amounts(milli=1, mib=2)
    assert [measure.dimension for measure in measures] == list(range(len(limits)))
    assert [measure.is_memory for measure in measures] == [False, True]


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
    assert Amounts.of_share(memory_mib, compute_milli, gpu_mib) == Amounts(cost, memory_mib)
