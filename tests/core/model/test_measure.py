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
