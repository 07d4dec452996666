"""Decisions about running jobs add up, and make one plan with the entries of those that wait."""

from __future__ import annotations

import pytest

from cotenant.core.cycle.entry import Entry
from cotenant.core.cycle.outcome import CycleOutcome, Departures
from cotenant.core.model.plan import Admit, Evict, EvictionKind, Plan, Reason, Refusal, Resize, Verdict
from tests.support.clusters import make_job, make_placement

PLACE, OTHER = make_placement(("n1", [[0]])), make_placement(("n1", [[1]]))


def evict(name: str) -> Evict:
    return Evict(job=name, kind=EvictionKind.PREEMPTED, in_favour_of="red/new", message="leaves")


def resize(name: str, message: str = "shrinks") -> Resize:
    return Resize(job=name, placement=PLACE, message=message)


SHRINK = Departures((), (resize("a"),), {"a": frozenset({3})})


@pytest.mark.parametrize(
    ("steps", "evictions", "resizes", "departures"),
    [
        pytest.param([], {}, {}, 0, id="nothing"),
        pytest.param([Departures((evict("a"), evict("b")))], {"a": evict("a"), "b": evict("b")}, {}, 2, id="evictions"),
        pytest.param([SHRINK], {}, {"a": resize("a")}, 1, id="a job that shrinks leaves in part"),
        pytest.param(
            [Departures((), (resize("a", "grows"),))], {}, {"a": resize("a", "grows")}, 0, id="one that grows does not"
        ),
        pytest.param(
            [SHRINK, Departures((), (resize("a", "again"),), {"a": frozenset({2, 3})})],
            {},
            {"a": resize("a", "again")},
            1,
            id="a later resize replaces the earlier one",
        ),
        pytest.param(
            [SHRINK, Departures((evict("a"),))], {"a": evict("a")}, {}, 2, id="an eviction makes a resize void"
        ),
        pytest.param(
            [Departures((evict("a"),), (resize("a"),), {})], {"a": evict("a")}, {}, 1, id="also one of the same step"
        ),
    ],
)
def test_departures_of_several_turns_add_up(
    steps: list[Departures], evictions: dict[str, Evict], resizes: dict[str, Resize], departures: int
) -> None:
    outcome = CycleOutcome()
    for step in steps:
        outcome.add(step)

    assert (outcome.evictions, outcome.resizes, outcome.departures) == (evictions, resizes, departures)
    assert [key for key in ("a", "b", "c") if outcome.touches(key)] == sorted({*evictions, *resizes})


WAITS = Refusal(reason=Reason.WAITING_FOR_GPUS, message="waits", evidence=(("asked", 1),))


def verdict(name: str) -> Verdict:
    return Verdict(job=f"red/{name}", reason=Reason.WAITING_FOR_GPUS, message="waits", evidence=(("asked", 1),))


def test_a_plan_has_evictions_then_resizes_then_admissions_each_by_key_and_a_verdict_for_all_others() -> None:
    admitted, admitted_too, nominated, waiting, rejected = (Entry(make_job(name)) for name in ("b", "a", "n", "w", "r"))
    admitted.admit(PLACE)
    admitted_too.admit(OTHER)
    nominated.nominate(OTHER, WAITS)
    waiting.wait(WAITS)
    rejected.reject(WAITS)
    outcome = CycleOutcome(moves={"red/z": PLACE, "red/m": OTHER})
    outcome.add(Departures((evict("y"), evict("x")), (resize("v"), resize("u"))))

    plan = outcome.plan([waiting, admitted, nominated, rejected, admitted_too])

    assert plan == Plan(
        actions=(
            evict("x"),
            evict("y"),
            resize("u"),
            resize("v"),
            Admit(job="red/a", placement=OTHER),
            Admit(job="red/b", placement=PLACE),
        ),
        verdicts={"red/n": verdict("n"), "red/r": verdict("r"), "red/w": verdict("w")},
        nominations={"red/m": OTHER, "red/n": OTHER, "red/z": PLACE},
    )
    assert list(plan.verdicts) == ["red/n", "red/r", "red/w"]
    assert list(plan.nominations) == ["red/m", "red/n", "red/z"]


def test_an_entry_that_waited_before_it_was_admitted_gets_no_verdict() -> None:
    entry = Entry(make_job("a"))
    entry.wait(WAITS)
    entry.admit(PLACE)

    assert CycleOutcome().plan([entry]) == Plan(actions=(Admit(job="red/a", placement=PLACE),))


def test_an_entry_has_a_place_only_in_the_matching_outcome() -> None:
    entry = Entry(make_job("a"))
    found = []
    entry.nominate(PLACE, WAITS)
    found.append((entry.admitted_to, entry.nominated_to))
    entry.admit(OTHER)
    found.append((entry.admitted_to, entry.nominated_to))
    entry.wait(WAITS)
    found.append((entry.admitted_to, entry.nominated_to))

    assert found == [(None, PLACE), (OTHER, None), (None, None)]
