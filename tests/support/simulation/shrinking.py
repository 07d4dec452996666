"""The smallest scenario found that violates an invariant of the same kind: without what it does not need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from tests.support.simulation.scenario import Scenario

T = TypeVar("T")
TRIES_MAX = 200


def kind_of(violation: str) -> str:
    """What stands before the colon."""
    return violation.partition(":")[0]


def shrink(scenario: Scenario, violation_of: Callable[[Scenario], str]) -> Scenario:
    """Leave out incidents, jobs, sweeps, machines and a replica, as long as the violation stays of its kind."""
    kind, tries = kind_of(violation_of(scenario)), 0
    shrunk = True
    while shrunk:
        shrunk = False
        for smaller in _smaller(scenario):
            tries += 1
            if tries > TRIES_MAX:
                return scenario
            if kind_of(violation_of(smaller)) == kind:
                scenario, shrunk = smaller, True
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Smaller lists: halves first, then one element less at a time."""
    for incidents in _without(scenario.incidents):
        yield replace(scenario, incidents=incidents)
    for jobs in _without(scenario.jobs):
        if jobs:
            yield replace(scenario, jobs=jobs)
    for composites in _without(scenario.composites):
        yield replace(scenario, composites=composites)
    if scenario.replicas > 1:
        yield replace(scenario, replicas=scenario.replicas - 1)
    if len(scenario.machines) > 1:
        yield replace(scenario, machines=scenario.machines[:-1])
    used = {one.queue for one in (*scenario.jobs, *scenario.composites)}
    if queues := tuple(queue for queue in scenario.queues if queue[0] not in used):
        yield replace(scenario, queues=tuple(queue for queue in scenario.queues if queue not in queues))


def _without(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    size = len(items)
    while size > 1:
        size = (size + 1) // 2
        for start in range(0, len(items), size):
            yield items[:start] + items[start + size :]
    if len(items) == 1:
        yield ()
