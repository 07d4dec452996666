"""Order of candidates for eviction."""

from __future__ import annotations

import pytest

from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.eviction_candidate import EvictionCandidate
from cotenant.core.model.plan import EvictionKind
from cotenant.core.quota.usage import Charge
from tests.support.clusters import make_job

NOTHING = Allocation((), Charge(-1, "", ()))


def candidate(
    name: str = "m",
    *,
    lost: int = 5,
    kind: EvictionKind = EvictionKind.RECLAIMED,
    priority: int = 5,
    admitted_at: float | None = 5.0,
    ranks: range | None = None,
    level: int = 0,
) -> EvictionCandidate:
    job = make_job(name, priority=priority, admitted_at=admitted_at)
    return EvictionCandidate(job, NOTHING, kind, lost, ranks, level)


PREEMPTED = EvictionKind.PREEMPTED


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(candidate(lost=4, kind=PREEMPTED, priority=9), candidate(), id="least lost work"),
        pytest.param(candidate(priority=9), candidate(kind=PREEMPTED), id="borrowers before the own queue"),
        pytest.param(candidate(priority=4, admitted_at=1.0), candidate(), id="lower priority"),
        pytest.param(candidate("z", admitted_at=6.0), candidate(), id="the newest"),
        pytest.param(candidate("z"), candidate(admitted_at=None), id="one of unknown age last"),
        pytest.param(candidate("a", ranks=range(1, 2)), candidate(ranks=range(2, 3)), id="by key"),
        pytest.param(candidate(ranks=range(1, 3)), candidate(ranks=range(1, 2)), id="the last rank of a job"),
        pytest.param(candidate(ranks=range(1, 2)), candidate(), id="surplus before the minimum"),
        pytest.param(candidate(lost=9), candidate(lost=1, level=1), id="who yields by service comes last"),
        pytest.param(candidate(lost=9, level=3), candidate(lost=1, level=2), id="of those the one that has had most"),
    ],
)
def test_the_first_candidate_to_leave_is(first: EvictionCandidate, second: EvictionCandidate) -> None:
    assert first.order < second.order


def test_by_default_a_candidate_does_not_yield_by_service() -> None:
    made = EvictionCandidate(make_job("a"), NOTHING, PREEMPTED, 5)
    assert made.order == candidate("a", kind=PREEMPTED, priority=0, admitted_at=None, level=0).order


def test_a_whole_job_is_a_candidate_without_ranks() -> None:
    assert [candidate(ranks=ranks).is_job for ranks in (None, range(1), range(1, 2))] == [True, False, False]
