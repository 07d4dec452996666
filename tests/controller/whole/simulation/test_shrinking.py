"""A scenario that violates something is made as small as that violation allows."""

from __future__ import annotations

from dataclasses import replace

from tests.support.simulation.scenario import Incident, Scenario, draw
from tests.support.simulation.shrinking import TRIES_MAX, kind_of, shrink

LARGE = max(map(draw, range(40)), key=lambda one: len(one.incidents) * len(one.jobs) * len(one.queues))


def test_what_the_violation_does_not_need_is_left_out() -> None:
    needed = LARGE.incidents[len(LARGE.incidents) // 2]

    def violation_of(scenario: Scenario) -> str:
        return "GPUs are held twice: GPU-1" if needed in scenario.incidents else ""

    found = shrink(LARGE, violation_of)
    assert (found.incidents, len(found.jobs), len(found.machines), found.replicas) == ((needed,), 1, 1, 1)
    assert [name for name, *_ in found.queues] == [found.jobs[0].queue]
    assert (found.seed, found.calm_at_s) == (LARGE.seed, LARGE.calm_at_s)


def test_what_it_takes_together_stays_together() -> None:
    first, last = LARGE.incidents[0], LARGE.incidents[-1]

    def violation_of(scenario: Scenario) -> str:
        return "stuck: a job" if {first, last} <= set(scenario.incidents) and scenario.replicas == 2 else ""

    found = shrink(LARGE, violation_of)
    assert (found.incidents, found.replicas) == ((first, last), 2)


def test_another_violation_is_not_taken_for_the_same_one() -> None:
    def violation_of(scenario: Scenario) -> str:
        return "stuck: all" if scenario == LARGE else "lost: something else"

    assert shrink(LARGE, violation_of) == LARGE


def test_the_words_after_the_colon_do_not_make_it_another_one() -> None:
    found = shrink(LARGE, lambda scenario: f"stuck: {len(scenario.incidents)} incidents")
    assert (found.incidents, len(found.jobs), kind_of("stuck: 3 incidents")) == ((), 1, "stuck")


def test_the_search_gives_up_after_so_many_tries_with_the_smallest_so_far() -> None:
    many = replace(LARGE, incidents=tuple(Incident(at=float(n), kind="Kill", target="leader") for n in range(400)))
    tries: list[Scenario] = []

    def violation_of(scenario: Scenario) -> str:
        tries.append(scenario)
        return "stuck: all" if len(scenario.incidents) >= 200 else ""

    assert len(shrink(many, violation_of).incidents) == 200
    assert len(tries) == 1 + TRIES_MAX
