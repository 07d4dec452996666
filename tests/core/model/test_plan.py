"""Reasons to wait, verdicts made of them, and a job with an action applied."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from cotenant.core.model.objects import Job, Placement
from cotenant.core.model.plan import Action, Admit, Evict, EvictionKind, Reason, Refusal, Resize, overlay
from tests.support.clusters import make_job, make_placement


def test_for_these_reasons_waiting_alone_does_not_help() -> None:
    assert {reason.value for reason in Reason if reason.needs_change} == {
        "QueueNotFound",
        "NamespaceNotServed",
        "NoQuota",
        "ExceedsLimit",
        "PriorityNotAllowed",
        "QueueHeld",
        "ClassNotFound",
        "ClassNotShared",
        "ZoneNotFound",
        "ExceedsCluster",
    }


def test_a_verdict_is_the_refusal_plus_the_jobs_name() -> None:
    refusal = Refusal(reason=Reason.WAITING_FOR_GPUS, message="waits", evidence=(("asked", 1),))

    not_played_yet = {"estimated_start_at": None, "latest_start_at": None, "position": None, "ahead": ""}
    untold = {"starts_by": None, "starts_by_basis": "", "would_start_if": "", "change": ()}
    said = {name: value for name, value in asdict(refusal).items() if name not in {"or_space", "binding"}}
    assert asdict(refusal.verdict("red/a")) == {"job": "red/a", **said, **not_played_yet, **untold}


HERE, THERE = make_placement(("n1", [[0]])), make_placement(("n1", [[0], [1]]))
WAITS = make_job("a", workers=(1, 2))
RUNS = replace(WAITS, placement=HERE, admitted_at=5.0)
EVICT = Evict(job="red/a", kind=EvictionKind.RECLAIMED, in_favour_of=None, message="")


def admit(placement: Placement, until: float | None = None) -> Admit:
    return Admit(job="red/a", placement=placement, backfilled_until=until)


def resize(placement: Placement) -> Resize:
    return Resize(job="red/a", placement=placement, message="")


@pytest.mark.parametrize(
    ("job", "action", "want"),
    [
        pytest.param(
            replace(WAITS, evicting=True),
            admit(HERE, 90.0),
            replace(WAITS, placement=HERE, admitted_at=7.0, backfilled_until=90.0),
            id="an admitted job holds its placement from the moment of the decision on",
        ),
        pytest.param(RUNS, EVICT, replace(RUNS, evicting=True), id="an evicted job holds its GPUs and leaves"),
        pytest.param(WAITS, EVICT, WAITS, id="a job that holds nothing does not leave"),
        pytest.param(
            RUNS,
            resize(THERE),
            replace(RUNS, placement=THERE, resizing_from=HERE),
            id="a resized job comes from its old placement",
        ),
        pytest.param(
            replace(RUNS, placement=THERE, resizing_from=HERE),
            resize(HERE),
            replace(RUNS, placement=HERE, resizing_from=HERE),
            id="a job resized again comes from where the first resize began",
        ),
    ],
)
def test_a_job_is_counted_as_if_the_action_were_carried_out(job: Job, action: Action, want: Job) -> None:
    assert overlay(job, action, 7.0) == want
