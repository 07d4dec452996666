"""Work that an eviction loses, and the time for which a job is protected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.cycle.eviction_rules import EvictionRules
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.moment import Moment
from cotenant.core.policy import Policy
from cotenant.core.quota.tree import QueueTree
from tests.support.clusters import make_job, make_queue


def rules(*, policy_s: int = 0, queue_s: int = 0, restart_s: int = 60) -> EvictionRules:
    tree = QueueTree.of([make_queue("red", protected_runtime_s=queue_s)], Inventory.of([]))
    return EvictionRules(tree, Policy(protected_runtime_s=policy_s, restart_cost_s=restart_s), Moment(1_000.0))


@pytest.mark.parametrize(
    ("policy_s", "queue_s", "admitted_at", "protected"),
    [
        pytest.param(0, 0, 1_000.0, False, id="nobody where no time is set"),
        pytest.param(100, 0, 900.5, True, id="half a second before the policy's time is over"),
        pytest.param(100, 0, 900.0, False, id="when it is just over"),
        pytest.param(0, 100, 900.5, True, id="the queue's time counts as well"),
        pytest.param(50, 100, 949.0, True, id="the longer of both"),
        pytest.param(100, 50, 949.0, True, id="whichever it is"),
        pytest.param(0, 0, 1_000.5, False, id="nobody where no time is set, also by a clock that is behind"),
        pytest.param(1, 0, 999.5, True, id="for a second"),
        pytest.param(100, 100, None, False, id="a job without a time of admission has none"),
    ],
)
def test_how_long_a_job_is_protected(policy_s: int, queue_s: int, admitted_at: float | None, protected: bool) -> None:
    job = make_job("a", admitted_at=admitted_at)

    assert rules(policy_s=policy_s, queue_s=queue_s).may_be_evicted(job) is not protected


@pytest.mark.parametrize(("ran_s", "protected"), [(99.0, True), (100.0, False)])
def test_a_job_that_overran_its_promise_is_protected_by_the_policy_alone(ran_s: float, protected: bool) -> None:
    job = make_job("a", admitted_at=1_000.0 - ran_s, backfilled_until=990.0)

    assert rules(policy_s=100, queue_s=9_999).may_be_evicted(job) is not protected


@pytest.mark.parametrize(
    ("changes", "evicted", "at_once", "may"),
    [
        pytest.param({}, (), False, True, id="one that has run for long"),
        pytest.param({"preemptible": False}, (), True, False, id="not one that is not preemptible"),
        pytest.param({"admitted_at": 950.0}, (), False, False, id="not in its first minutes"),
        pytest.param({"admitted_at": 950.0}, (), True, True, id="but for who does not wait for that"),
        pytest.param({}, ("red/a",), True, False, id="not again before anything has changed"),
        pytest.param({}, ("red/b",), False, True, id="another one was"),
    ],
)
def test_whether_a_job_may_be_evicted(
    changes: dict[str, Any], evicted: tuple[str, ...], at_once: bool, may: bool
) -> None:
    job = make_job("a", **{"admitted_at": 100.0} | changes)

    assert replace(rules(policy_s=100), evicted=evicted).may_be_evicted(job, at_once=at_once) is may


def test_without_an_argument_the_evictor_has_no_class() -> None:
    assert not rules(policy_s=100).may_be_evicted(make_job("a", admitted_at=950.0))


@pytest.mark.parametrize(
    ("submitted_at", "admitted_at", "saved_at", "lost_s"),
    [
        pytest.param(0.0, 700.0, None, 360, id="since its admission, and a restart"),
        pytest.param(0.0, 700.0, 950.0, 110, id="since its checkpoint"),
        pytest.param(0.0, 700.0, 600.0, 360, id="a checkpoint of an earlier run saves nothing of this one"),
        pytest.param(900.0, None, None, 160, id="since its submission where no admission is known"),
        pytest.param(0.0, 700.0, 1_001.0, 60, id="a checkpoint of a clock that is ahead gives nothing back"),
        pytest.param(0.0, 998.5, None, 61, id="whole seconds"),
    ],
)
def test_the_work_an_eviction_loses(
    submitted_at: float, admitted_at: float | None, saved_at: float | None, lost_s: int
) -> None:
    job = make_job("a", at=submitted_at, admitted_at=admitted_at, last_checkpoint_at=saved_at)

    assert rules().lost_work(job, 2_000) == 2_000 * lost_s


@pytest.mark.parametrize(
    ("until", "lost"), [(None, 2_000), (1_000.5, 2_000), (1_000.0, 0)], ids=["idle", "in time", "overran"]
)
def test_an_idle_job_loses_one_second_and_leaves_after_a_job_that_overran_its_promise(
    until: float | None, lost: int
) -> None:
    job = make_job("a", admitted_at=700.0, backfilled_until=until, idle=True)

    assert rules().lost_work(job, 2_000) == lost


@pytest.mark.parametrize(("until", "lost"), [(1_000.5, 2_000 * 360), (1_000.0, 0), (900.0, 0)])
def test_an_eviction_of_a_job_that_overran_its_promise_loses_nothing(until: float, lost: int) -> None:
    job = make_job("a", admitted_at=700.0, backfilled_until=until)

    assert rules().lost_work(job, 2_000) == lost
