"""A moment notes until when its answers stay the same."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.model.moment import Moment


@pytest.mark.parametrize(
    ("asked", "has_come", "is_past", "until"),
    [
        pytest.param(99.0, True, True, inf, id="past"),
        pytest.param(100.0, True, False, 100.0, id="now: past in the next moment"),
        pytest.param(101.0, False, False, 101.0, id="to come"),
    ],
)
def test_an_instant_is(asked: float, has_come: bool, is_past: bool, until: float) -> None:
    moment = Moment(100.0)
    assert (moment.has_come(asked), moment.is_past(asked), moment.until) == (has_come, is_past, until)


def test_a_moment_remembers_the_earliest_instant_that_could_change_an_answer() -> None:
    moment = Moment(100.0)
    assert [moment.has_come(at) for at in (300.0, 200.0, 50.0, 250.0)] == [False, False, True, False]
    assert moment.until == 200.0


@pytest.mark.parametrize("read", [lambda moment: moment.read(), lambda moment: moment.pin()], ids=["read", "pinned"])
def test_an_answer_computed_from_the_time_itself_holds_for_no_later_moment(read: object) -> None:
    moment = Moment(100.0)
    read(moment)  # type: ignore[operator]
    assert moment.until == 100.0
    assert Moment(100.0).at == 100.0


def test_asking_about_many_instants_answers_the_same_as_asking_one_by_one() -> None:
    moment, one_by_one = Moment(100.0), Moment(100.0)
    instants = [99.0, 100.0, 103.0, 101.5, inf]

    assert moment.have_come(np.array(instants)).tolist() == [one_by_one.has_come(at) for at in instants]
    assert moment.until == one_by_one.until == 101.5
    assert Moment(100.0).have_come(np.array([])).tolist() == []


@pytest.mark.parametrize(
    ("age", "rounded", "until"),
    [
        pytest.param(0.0, 100_020.0, 100_020.0, id="of a minute at first"),
        pytest.param(1_919.0, 100_020.0, 100_001.0, id="until half an hour"),
        pytest.param(1_920.0, 100_080.0, 100_080.0, id="then of two"),
        pytest.param(61_440.0, 103_680.0, 103_680.0, id="of an hour and some minutes at seventeen hours"),
        pytest.param(-5.0, 100_020.0, 100_020.0, id="of what has not begun"),
    ],
)
def test_rounding_steps_grow_with_the_age_of_a_job(age: float, rounded: float, until: float) -> None:
    moment = Moment(100_000.0)

    assert moment.rounded_up_by_age(np.array([100_000.0 - age]), 60).tolist() == [rounded]
    assert moment.until == until


@given(st.lists(st.integers(0, 5_000), max_size=4), st.integers(0, 9_000), st.integers(0, 9_000))
def test_a_time_rounded_by_age_stays_the_same_until_the_moment_says(began: list[int], at: int, later: int) -> None:
    since = np.array(began, dtype=np.float64)
    moment = Moment(at)
    rounded = moment.rounded_up_by_age(since, 4).tolist()

    assert all(at <= one for one in rounded)
    if at <= later < moment.until:
        assert Moment(later).rounded_up_by_age(since, 4).tolist() == rounded


INSTANTS = st.lists(st.tuples(st.integers(0, 20), st.booleans()))


@given(INSTANTS, st.integers(0, 20), st.integers(0, 20))
def test_no_answer_changes_before_the_time_that_the_moment_noted(
    asked: list[tuple[int, bool]], at: int, later: int
) -> None:
    def answers(moment: Moment) -> list[bool]:
        return [moment.is_past(one) if strictly else moment.has_come(one) for one, strictly in asked]

    moment = Moment(at)
    known = answers(moment)
    if at <= later < moment.until:
        assert answers(Moment(later)) == known
