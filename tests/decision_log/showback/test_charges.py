"""Lines of the ledger: four parts, and what of them falls into a time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.decision_log.showback.charges import PARTS, UsageCharge, split

AMOUNTS = st.integers(0, 10**12)


@pytest.mark.parametrize(
    ("known", "parts"),
    [
        ({}, [100, 0, 0, 0]),
        ({"samples": 4, "idle_samples": 1}, [75, 25, 0, 0]),
        ({"preempted": 30, "faulted": 20, "samples": 2, "idle_samples": 1}, [25, 25, 30, 20]),
        ({"preempted": 80, "faulted": 80}, [0, 0, 80, 20]),
        ({"samples": 3, "idle_samples": 1}, [67, 33, 0, 0]),
    ],
    ids=["not measured", "idle", "lost", "more than was held", "rounded down"],
)
def test_what_was_held_is_used_idle_or_lost(known: dict[str, int], parts: list[int]) -> None:
    found = split(100, **{"preempted": 0, "faulted": 0, "idle_samples": 0, "samples": 0} | known)
    assert [found[name] for name in PARTS] == parts


@given(AMOUNTS, AMOUNTS, AMOUNTS, st.integers(0, 99), st.integers(0, 99))
def test_the_four_parts_are_what_was_held(held: int, preempted: int, faulted: int, idle: int, samples: int) -> None:
    parts = split(held, preempted=preempted, faulted=faulted, idle_samples=idle, samples=samples)
    assert (sum(parts.values()), min(parts.values()) >= 0) == (held, True)


@given(st.lists(AMOUNTS, min_size=4, max_size=4), st.integers(0, 10_000), st.lists(st.integers(-10, 12_000)))
def test_a_charge_that_is_cut_anywhere_adds_up_to_itself(amounts: list[int], length: int, cuts: list[int]) -> None:
    used, idle, preempted, faulted = amounts
    charge = UsageCharge(
        namespace="a", name="j", uid="u", queue="q", since=0, until=length, used=used, idle=idle,
        lost_to_preemption=preempted, lost_to_faults=faulted,
    )  # fmt: skip
    found = [charge.within(since, until) for since, until in pairwise(sorted({-11, 12_001, *cuts}))]
    for name in PARTS:
        assert sum(getattr(one, name) for one in found if one) == getattr(charge, name)
