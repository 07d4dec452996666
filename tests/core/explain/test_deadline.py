"""The time that is left until an instant, as tenants are told it."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.explain.deadline import Deadline
from cotenant.core.model.moment import Moment


@pytest.mark.parametrize(
    ("left", "rounded"),
    [(-5, 0), (-1, 0), (0, 0), (59, 59),
     (60, 60), (69, 60), (599, 590), (600, 600), (959, 900), (960, 960), (1_079, 960), (7_287, 7_200),
     (90_000, 84_480)],
)  # fmt: skip
def test_the_remaining_time_is_worded_in_units_that_grow_with_it(left: int, rounded: int) -> None:
    moment = Moment(1_000.0)

    assert Deadline.told(1_000.0 + left, moment).seconds == rounded
    assert moment.until == (1_000.0 + left - rounded if left >= 0 else inf)


@given(st.integers(0, 100_000), st.integers(0, 50_000))
def test_a_rounded_instant_stays_the_same_until_the_time_that_the_moment_noted(left: int, later: int) -> None:
    moment = Moment(0.0)
    rounded = Deadline.told(left, moment).seconds

    if later <= moment.until:
        assert Deadline.told(left, Moment(later)).seconds == rounded
