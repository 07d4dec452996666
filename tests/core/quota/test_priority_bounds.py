"""Priorities that queues allow: of a number, of a PriorityClass, along a path, and of jobs that run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import TenantQueue
from cotenant.core.model.plan import Evict, Reason
from cotenant.core.quota.priority_bounds import PriorityBounds
from cotenant.core.quota.tree import QueueTree
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

TOP = make_queue("top", guaranteed=1)
RED = replace(make_queue("red", guaranteed=1), parent="top")


def tree(*queues: TenantQueue) -> QueueTree:
    return QueueTree.of(queues, Inventory.of([make_node("n1")]))


@pytest.mark.parametrize(
    ("top", "red", "of_class", "want"),
    [
        pytest.param(TOP, RED, False, PriorityBounds(-1_000, 1_000, "", ""), id="a number, where nobody says anything"),
        pytest.param(TOP, RED, True, PriorityBounds(-(10**9), 10**9, "", ""), id="a class that is not the system's"),
        pytest.param(
            TOP, replace(RED, max_priority=5_000), False, PriorityBounds(-1_000, 5_000, "", "red"), id="more is allowed"
        ),
        pytest.param(
            TOP,
            replace(RED, max_priority=7, min_priority=0),
            True,
            PriorityBounds(0, 7, "red", "red"),
            id="of classes too",
        ),
        pytest.param(
            replace(TOP, max_priority=3, min_priority=1),
            replace(RED, max_priority=7, min_priority=0),
            False,
            PriorityBounds(1, 3, "top", "top"),
            id="a queue allows no more than those above it",
        ),
    ],
)
def test_the_narrowest_bounds_on_the_path_hold(
    top: TenantQueue, red: TenantQueue, of_class: bool, want: PriorityBounds
) -> None:
    counted = tree(top, red)

    assert counted.priority_bounds(counted.index["red"], of_class=of_class) == want


@pytest.mark.parametrize(
    ("priority", "priority_class", "queue", "want"),
    [
        pytest.param(10**9, "", "red", 1_000, id="as much as is allowed"),
        pytest.param(-(10**9), "", "red", -1_000, id="as little as is allowed"),
        pytest.param(10**9, "batch", "red", 10**9, id="the administrator's class"),
        pytest.param(2 * 10**9, "system-node-critical", "red", 10**9, id="not the system's"),
        pytest.param(7, "", "gone", 7, id="of a queue that is gone, its own"),
    ],
)
def test_a_running_job_counts_with_the_nearest_allowed_priority(
    priority: int, priority_class: str, queue: str, want: int
) -> None:
    job = make_job("j", queue=queue, priority=priority, priority_class=priority_class)

    assert tree(TOP, RED).allowed_priority(job) == want


REFUSED = {
    "a number": (
        make_job("j", priority=10**9),
        RED,
        "The job asks for priority 1000000000, above 1000, the highest unless a queue says otherwise; write"
        " spec.priority: 1000, or ask an administrator to change maxPriority of queue red.",
    ),
    "a number above what the queue says": (
        make_job("j", priority=8),
        replace(RED, max_priority=7),
        "The job asks for priority 8, above 7, the highest that queue red allows (maxPriority); write spec.priority:"
        " 7, or ask an administrator to change maxPriority of queue red.",
    ),
    "a number below": (
        make_job("j", priority=-1),
        replace(RED, min_priority=0),
        "The job asks for priority -1, below 0, the lowest that queue red allows (minPriority); write spec.priority:"
        " 0, or ask an administrator to change minPriority of queue red.",
    ),
    "a class of the system": (
        make_job("j", priority=2 * 10**9, priority_class="system-cluster-critical"),
        RED,
        "PriorityClass system-cluster-critical has priority 2000000000, above 1000000000, the highest unless a queue"
        " says otherwise; name a class of 1000000000 or less in spec.priorityClassName, or ask an administrator to"
        " change maxPriority of queue red.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_message_for_a_waiting_job_says_what_to_write_instead_of(name: str) -> None:
    job, queue, message = REFUSED[name]
    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=[TOP, queue], jobs=[job]))

    assert (plan.actions, plan.verdicts["red/j"].reason, plan.verdicts["red/j"].message) == (
        (),
        Reason.PRIORITY_NOT_ALLOWED,
        message,
    )


@pytest.mark.parametrize(
    ("queue", "evicted"),
    [
        pytest.param(RED, ["red/immune"], id="counts with 1000, below the class's 5000"),
        pytest.param(replace(RED, max_priority=5_000), [], id="counts with 5000, as much as the other"),
        pytest.param(replace(RED, max_priority=10**9), [], id="counts with what it asks where that is allowed"),
    ],
)
def test_editing_the_priority_of_a_running_job_does_not_protect_it(queue: TenantQueue, evicted: list[str]) -> None:
    immune = make_job("immune", priority=10**9, placement=make_placement(("n1", [[0]])), admitted_at=0.0)
    urgent = make_job("urgent", priority=5_000, priority_class="urgent")

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=1)], queues=[TOP, queue], jobs=[immune, urgent]))

    assert [action.job for action in plan.actions if isinstance(action, Evict)] == evicted
