"""The plan of a move: whether there is a place, what it costs; true when the wish is written down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.api.conversion.job_moves import JobMove, with_move
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Plan
from cotenant.query.job_move import MovePlan, plan_move
from cotenant.query.situation import Situation
from tests.support.clusters import (
    UNPROTECTED,
    ToyCluster,
    make_job,
    make_node,
    make_placement,
    make_queue,
    make_snapshot,
)

NODES = [make_node("n1"), make_node("n2")]
TRAINS = replace(
    make_job("trains", workers=2, placement=make_placement(("n1", [[0], [1]]))),
    admitted_at=100.0,
    last_checkpoint_at=400.0,
)


def situation(*others: Job, trains: Job = TRAINS) -> Situation:
    queue = make_queue("red", guaranteed=8)
    return Situation(make_snapshot(nodes=NODES, queues=[queue], jobs=[trains, *others]), Plan(), UNPROTECTED)


def asked(job: Job = TRAINS, **wish: Any) -> Job:
    return with_move(job, JobMove(attempt=1, until=0.0, **wish))


OFF: dict[str, Any] = {"avoided": frozenset({"n1"})}
COST: dict[str, Any] = {"held": (("n1", 2),), "unsaved_s": 600, "unsaved_milli_s": 1_200_000, "job": "red/trains"}


def test_a_move_that_fits_names_the_place_and_what_is_lost() -> None:
    assert plan_move(situation(), asked(**OFF)) == MovePlan(fits=True, to=(("n2", 2),), **COST)


@pytest.mark.parametrize(
    ("others", "job", "there", "message"),
    [
        ((make_job("o", placement=make_placement(("n2", [[0]]))),), TRAINS, False, "1 of 2 workers"),
        ((), replace(TRAINS, evicting=True), False, "it was asked to leave before"),
    ],
    ids=["no room", "leaves already"],
)
def test_a_move_that_does_not_fit_says_why(others: tuple[Job, ...], job: Job, *, there: bool, message: str) -> None:
    found = plan_move(situation(*others, trains=job), asked(job, **OFF))
    assert (found.fits, found.there, found.to) == (False, there, ())
    assert message in found.message


def test_a_job_that_already_lies_there_loses_nothing() -> None:
    found = plan_move(situation(), asked(nodes=frozenset({"n1"})))
    assert (found.fits, found.there, found.message) == (False, True, "it is there already")


@given(st.sets(st.sampled_from([("n1", 0), ("n1", 1), ("n2", 0), ("n2", 1)]), min_size=1))
def test_a_move_that_is_said_to_fit_happens_in_the_next_cycle(taken: set[tuple[str, int]]) -> None:
    jobs = [make_job(f"{node}-{at}", placement=make_placement((node, [[at]]))) for node, at in sorted(taken)]
    toy = ToyCluster(NODES, [make_queue("red", guaranteed=8)], [replace(job, admitted_at=0.0) for job in jobs])
    toy.cycle()
    job = toy.jobs[jobs[0].key]
    wish = asked(job, avoided=frozenset({job.placement.nodes[0].node}))  # type: ignore[union-attr]
    snapshot = toy.snapshot()
    said = plan_move(Situation(snapshot, Plan(), UNPROTECTED), wish)
    toy.observe(wish)
    plan = toy.cycle()
    assert said.fits == (job.key in {one.job for one in plan.actions})
    if said.fits:
        assert [node for node, _ in said.to] == [part.node for part in plan.nominations[job.key].nodes]
