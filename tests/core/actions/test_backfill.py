"""A gang waits for the last GPUs: who may still use those that are free."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core import Policy, schedule
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Admit, Plan
from cotenant.testing import make_job, make_node, make_placement, make_queue, make_snapshot


def plan(*small: Job, policy: Policy | None = None) -> Plan:
    """Four GPUs, two busy until 1,600; now is 1,000; a gang of four is first in line."""
    busy = [
        replace(
            make_job(f"busy{column}", placement=make_placement(("n1", [[column]])), expected_runtime_s=700),
            admitted_at=900.0,
        )
        for column in range(2)
    ]
    gang = make_job("gang", workers=4, at=1)
    snapshot = make_snapshot(
        nodes=[make_node("n1", gpus=4)], queues=[make_queue("red", guaranteed=8)], jobs=[*busy, gang, *small]
    )
    return schedule(snapshot, policy or Policy())


def admitted(decided: Plan) -> list[str]:
    return [action.job for action in decided.actions if isinstance(action, Admit)]


@pytest.mark.parametrize(
    ("runtime", "starts"),
    [(600, True), (601, False), (None, False)],
    ids=["ends in time", "ends too late", "does not say when it ends"],
)
def test_a_small_job_goes_first_only_if_it_delays_nobody(runtime: int | None, starts: bool) -> None:
    decided = plan(make_job("small", at=2, max_runtime_s=runtime))

    assert admitted(decided) == (["red/small"] if starts else [])
    assert decided.verdicts["red/gang"].estimated_start_at == 1_600.0
    if not starts:
        assert "places are kept for red/gang" in decided.verdicts["red/small"].message


def test_who_ends_in_time_is_not_held_back_by_somebody_who_asks_for_the_same_and_does_not() -> None:
    endless, brief = make_job("endless", at=2), make_job("brief", at=3, max_runtime_s=600)
    assert admitted(plan(endless, brief)) == ["red/brief"]
    assert admitted(plan(endless, brief, replace(brief, key="red/late", uid="late", max_runtime_s=601))) == [
        "red/brief"
    ]


def test_nothing_is_kept_for_a_start_that_is_far_away() -> None:
    assert admitted(plan(make_job("small", at=2), policy=Policy(reserve_within_s=300))) == ["red/small"]
