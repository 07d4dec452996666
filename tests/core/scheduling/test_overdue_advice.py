"""Advice for a job behind GPUs that are reserved for an overdue job: it may be overdue itself, and go first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.model.objects import Job, Quota
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from tests.core.scheduling.test_advice import edited, is_started, with_job
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

POLICY = Policy(collect_after_s=100)
"""Jobs that were submitted at 900 or before are overdue: it is 1,000."""
FEWER = "it asked for 2 workers"
MORE_QUOTA = "queue red, class any, zone any had 5 GPU more"


def busy(column: int) -> Job:
    return replace(make_job(f"busy{column}", placement=make_placement(("n1", [[column]]))), admitted_at=900.0)


OTHERS = replace(
    make_job("others", queue="lent", workers=2, preemptible=False, placement=make_placement(("n1", [[4], [5]]))),
    admitted_at=900.0,
)
"""With them a job that borrows four GPUs has room beside the guarantee that is in use."""


@pytest.mark.parametrize(
    ("new", "kept", "change"),
    [
        pytest.param({"at": 5}, {"at": 10}, FEWER, id="it has waited longer"),
        pytest.param({"at": 20}, {"at": 10}, "", id="it has waited for less time"),
        pytest.param({"at": 950}, {"at": 10}, "", id="it is not overdue"),
        pytest.param({"at": 5, "queue": "lent"}, {"at": 10}, "", id="it has waited longer, and has to borrow"),
        pytest.param({"at": 20}, {"at": 10, "queue": "lent"}, FEWER, id="the other one has to borrow"),
        pytest.param({"at": 5, "queue": "lent"}, {"at": 10, "queue": "lent"}, FEWER, id="both have to borrow"),
        pytest.param(
            {"at": 5, "queue": "lent"},
            {"at": 10, "queue": "lent", "classes": ("H100",)},
            FEWER,
            id="both have to borrow, and it may run on another class as well",
        ),
        pytest.param({"at": 5}, {"at": 10, "classes": ("H100",)}, FEWER, id="it is guaranteed another class as well"),
    ],
)
def test_a_gang_that_is_too_large_may_take_a_place_reserved_for_a_job_that_comes_after_it(
    new: dict[str, Any], kept: dict[str, Any], change: str
) -> None:
    """Two of six H100 are free, and are reserved for a gang of four. The gang of nine fits nowhere."""
    gang = make_job("new", workers=9, **new)
    nodes = [make_node("n1", gpus=6), make_node("n2", gpus=1, gpu_class="A100", ready=False)]
    queues = [make_queue("red", guaranteed=16), make_queue("lent", guaranteed=0)]
    jobs = [busy(0), busy(1), OTHERS, make_job("kept", workers=4, **kept), gang]
    snapshot = make_snapshot(nodes=nodes, queues=queues, jobs=jobs)

    check(snapshot, gang, change)


def test_a_job_that_has_to_borrow_waits_behind_places_that_are_kept_in_one_of_its_classes() -> None:
    """A guaranteed job has its turn before overdue jobs that borrow, and waits for A100."""
    gang = make_job("new", queue="lent", workers=9, at=5)
    nodes = [make_node("n1", gpus=6), make_node("n2", gpus=2, gpu_class="A100")]
    held = replace(make_job("held", workers=2, placement=make_placement(("n2", [[0], [1]]))), admitted_at=900.0)
    jobs = [
        *(busy(0), busy(1), OTHERS, held, gang),
        make_job("kept", queue="lent", workers=4, at=10, classes=("H100",)),
        make_job("first", workers=2, at=950, classes=("A100",)),
    ]
    queues = [make_queue("red", guaranteed=16), make_queue("lent", guaranteed=0)]

    check(make_snapshot(nodes=nodes, queues=queues, jobs=jobs), gang, "")


@pytest.mark.parametrize("expected_runtime_s", [None, 60, 5_000])
def test_an_expected_run_time_does_not_replace_a_maximum_on_a_place_reserved_for_an_overdue_job(
    expected_runtime_s: int | None,
) -> None:
    new = make_job("new", at=950, expected_runtime_s=expected_runtime_s)
    jobs = [busy(0), busy(1), make_job("kept", workers=4, at=10), new]
    nodes, queues = [make_node("n1", gpus=4)], [make_queue("red", guaranteed=16)]

    check(make_snapshot(nodes=nodes, queues=queues, jobs=jobs), new, "it were sure to end within 13m (maxRuntime)")


@pytest.mark.parametrize(
    ("new", "change"),
    [
        pytest.param({"workers": 9, "at": 5}, FEWER, id="can never start as written, and has waited longer"),
        pytest.param({"workers": 9, "at": 950}, "", id="can never start as written"),
        pytest.param({"workers": 3, "at": 950}, MORE_QUOTA, id="waits"),
        pytest.param({"workers": 3, "at": 950, "max_runtime_s": 60}, MORE_QUOTA, id="waits, and ends soon"),
    ],
)
def test_quota_that_is_reserved_without_gpus_is_not_advised_to_others(new: dict[str, Any], change: str) -> None:
    """Two of the four GPUs that its queue may borrow are used, and two are reserved for a gang of four."""
    gang = make_job("new", **new)
    queues = [replace(make_queue("red"), quotas=(Quota(limit=4_000),)), make_queue("blue", guaranteed=2)]
    jobs = [busy(0), busy(1), make_job("kept", workers=4, at=10), gang]

    check(make_snapshot(nodes=[make_node("n1", gpus=16)], queues=queues, jobs=jobs), gang, change)


def check(snapshot: Snapshot, gang: Job, change: str) -> None:
    """The gang is advised this, and starts if that changes its document. Else two of its workers do not start."""
    verdict = schedule(snapshot, POLICY).verdicts[gang.key]

    assert verdict.would_start_if == change
    changed = edited(gang, verdict.change) if verdict.change else replace(gang, workers_min=2, workers_max=2)
    assert is_started(schedule(with_job(snapshot, changed), POLICY), gang.key) == bool(verdict.change)
