"""The simulation notices defects that are put into the operator on purpose, and finds nothing where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.controller.whole.simulation.known_defects import (
    Defect,
    with_all_trials_begun_at_once,
    with_assumptions_not_made,
    with_composites_decided_on_before_the_list,
    with_gpus_freed_by_the_deletion_of_a_pod,
    with_half_a_gang_taken_for_a_whole_one,
    with_orphaned_pods_not_counted,
    with_trials_that_were_seen_forgotten,
    with_uncertain_commits_forgotten,
    without_a_list_before_the_first_decision,
    without_the_fence,
)
from tests.support.simulation.api_client import CallFault
from tests.support.simulation.composites import SessionPlan, SweepPlan
from tests.support.simulation.running_pod import Program
from tests.support.simulation.scenario import Incident, JobPlan, Scenario
from tests.support.simulation.shrinking import kind_of
from tests.support.simulation.world import World

COMMIT = "PATCH trainingjobs/first/status"


def job(name: str, **other: object) -> JobPlan:
    plan = JobPlan(name=name, queue=name, at=1.0, workers=1, gpu=(("count", 1),), program=Program(runs_s=60.0))
    return replace(plan, **other)  # type: ignore[arg-type]


RACE = Scenario(
    seed=0,
    machines=(1,),
    queues=(("first", 0, 0), ("second", 0, 0)),
    jobs=(job("first"), job("second", priority=10)),
    incidents=(
        Incident(at=39.0, kind="WatchBroken", target="a", call="trainingjobs", seconds=120.0),
        Incident(at=39.0, kind="WatchBroken", target="b", call="trainingjobs", seconds=120.0),
        Incident(at=40.0, kind="QuotaEdited", target="first", number=1),
        Incident(at=40.2, kind="QuotaEdited", target="second", number=1),
    ),
    calm_at_s=60.0,
)
"""Two jobs, one GPU. The watch does not show who has it, when the other, which goes first, may have it too."""
DELETED = Scenario(
    seed=0,
    machines=(1,),
    queues=(("first", 0, 1), ("second", 0, 1)),
    jobs=(job("first", grace_s=30, program=Program(runs_s=120.0, ends_after_s=25.0)), job("second", at=2.0)),
    incidents=(Incident(at=30.0, kind="JobDeleted", target="first/first"),),
    calm_at_s=60.0,
)
"""A job is deleted, and its pods take their time."""
GANG = Scenario(
    seed=0, machines=(1, 1), queues=(("first", 0, 2),), jobs=(job("first", workers=2),), incidents=(), calm_at_s=30.0
)


def with_incident(scenario: Scenario, incident: Incident) -> Scenario:
    return replace(scenario, incidents=tuple(sorted((*scenario.incidents, incident), key=lambda one: one.at)))


def on_commit(scenario: Scenario, fault: CallFault, seconds: float) -> Scenario:
    incident = Incident(at=39.5, kind=fault.value, target="leader", call=COMMIT, seconds=seconds)
    return with_incident(scenario, incident)


LOST = on_commit(RACE, CallFault.ANSWER_LOST, 0.05)
LATE = on_commit(RACE, CallFault.ANSWER_LATE, 20.0)
PAUSED = on_commit(RACE, CallFault.PAUSED, 30.0)
TAKEN_OVER = on_commit(RACE, CallFault.KILLED_AFTER, 0.0)
LET_OUT = replace(
    GANG,
    queues=(("first", 0, 1), ("second", 0, 1)),
    machines=(1,),
    jobs=(job("first"), job("second", at=8.0)),
    incidents=(
        Incident(at=0.5, kind=CallFault.REFUSED.value, target="leader", call=COMMIT),
        Incident(at=1.5, kind=CallFault.KILLED_AFTER.value, target="leader", call=COMMIT),
    ),
)
"""A job is admitted out of its quarantine, and the leader ends before it has made its pods."""
SWEEP = replace(
    GANG,
    jobs=(job("first"),),
    composites=(
        SweepPlan(name="sweep", queue="first", at=1.0, trials=3, parallelism=1, program=Program(runs_s=10.0)),
        SessionPlan(name="session", queue="first", at=2.0, program=Program(runs_s=40.0, ends_after_s=8.0)),
    ),
    incidents=(
        Incident(at=20.0, kind="CompositeSuspended", target="first/session", seconds=20.0),
        Incident(at=26.0, kind="Kill", target="leader"),
    ),
    calm_at_s=60.0,
)
"""A sweep and a session beside a job, and a leader that ends while the session is held back."""
LONG_TRIAL = SweepPlan(name="sweep", queue="first", at=1.0, trials=1, parallelism=1, program=Program(runs_s=100.0))
TRIAL_DELETED = replace(
    SWEEP, composites=(LONG_TRIAL,), incidents=(Incident(at=45.0, kind="JobDeleted", target="first/sweep-0"),)
)
"""Somebody deletes the job of a trial."""
TRIAL_UNSEEN = replace(
    SWEEP,
    composites=(replace(LONG_TRIAL, at=40.0, trials=3),),
    incidents=(
        Incident(at=39.0, kind="WatchBroken", target="a", call="trainingjobs", seconds=60.0),
        Incident(at=39.0, kind="WatchBroken", target="b", call="trainingjobs", seconds=60.0),
        Incident(at=41.0, kind="Terminate", target="leader"),
    ),
)
"""A sweep is made and the leader ends, while the watch does not show the sweep's job to the next leader."""
SEEDS = 10
"""Each is another timing: a defect that needs an unlucky moment is noticed in one of them."""


@pytest.mark.parametrize(
    ("defect", "scenario", "kind"),
    [
        (without_the_fence, PAUSED, "written without the Lease"),
        (with_uncertain_commits_forgotten, LOST, "GPU given twice"),
        (with_assumptions_not_made, LATE, "GPU given twice"),
        (without_a_list_before_the_first_decision, TAKEN_OVER, "GPU given twice"),
        (with_gpus_freed_by_the_deletion_of_a_pod, DELETED, "GPU given twice"),
        (with_orphaned_pods_not_counted, DELETED, "GPU given twice"),
        (with_half_a_gang_taken_for_a_whole_one, GANG, "gang not whole"),
        (with_all_trials_begun_at_once, SWEEP, "more trials than allowed"),
        (with_trials_that_were_seen_forgotten, TRIAL_DELETED, "trial made twice"),
        (with_composites_decided_on_before_the_list, TRIAL_UNSEEN, "more trials than allowed"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_defect_is_noticed(defect: Defect, scenario: Scenario, kind: str) -> None:
    kinds = []
    with defect():
        for seed in range(SEEDS):
            kinds.append(kind_of(World(replace(scenario, seed=seed)).run().violation))
            if kinds[-1] == kind:
                return
    assert kinds == [kind]


@pytest.mark.parametrize(
    "scenario", [LOST, LATE, PAUSED, TAKEN_OVER, DELETED, GANG, LET_OUT, SWEEP, TRIAL_DELETED, TRIAL_UNSEEN]
)
def test_without_a_defect_nothing_is_found(scenario: Scenario) -> None:
    outcome = World(scenario).run()
    assert not outcome.violation, outcome.report()
