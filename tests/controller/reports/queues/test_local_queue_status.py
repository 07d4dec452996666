"""What a namespace sees of its queue: amounts that the decisions go by, and nobody's name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.controller.reports.queues.local_queue_status import local_statuses
from cotenant.core.model.objects import Job, Quota, TenantQueue
from cotenant.core.model.plan import Admit
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

NODES = [make_node("a", gpus=2, gpu_class="A100"), make_node("h", gpus=4, gpu_class="H100")]


def queue(name: str, *lines: Quota) -> TenantQueue:
    return TenantQueue(name=name, namespaces=frozenset({name, "also"}), quotas=lines)


def running(name: str, node: str, *gpus: int, queue: str = "red") -> Job:
    placement = make_placement((node, [[gpu] for gpu in gpus]))
    return make_job(name, queue=queue, workers=len(gpus), placement=placement, admitted_at=0.0)


def shown(queues: list[TenantQueue], *jobs: Job, namespace: str = "red", name: str = "red") -> dict[str, Any]:
    snapshot = make_snapshot(nodes=NODES, queues=queues, jobs=list(jobs))
    return local_statuses(snapshot, [(namespace, name)])[namespace, name].to_document()


RED = [queue("red", Quota(gpu_class="H100", guaranteed=2_000), Quota(gpu_class="A100", limit=1_000))]
BLUE = queue("blue", Quota(guaranteed=3_000))


def test_by_class_it_shows_what_is_guaranteed_used_and_free() -> None:
    found = shown([*RED, BLUE], running("one", "h", 0, 1, 2), running("secret-name", "a", 0, queue="blue"))
    assert found == {
        "guaranteed": "2",
        "used": "3",
        "usedHere": found["usedHere"],
        "borrowed": "1",
        "free": "2",
        "running": found["running"],
        "pending": 0,
        "quotas": [
            {"gpuClass": "H100", "guaranteed": "2", "used": "3", "free": "1"},
            {"gpuClass": "A100", "guaranteed": "0", "limit": "1", "used": "0", "free": "1"},
        ],
    }
    assert "secret" not in str(found)
    assert "blue" not in str(found)


@pytest.mark.parametrize(
    ("queues", "jobs", "free"),
    [
        pytest.param([queue("red")], [], "0", id="nothing granted"),
        pytest.param([queue("red", Quota(gpu_class="H100"))], [], "4", id="one class granted"),
        pytest.param([queue("red", Quota(limit=3_000), Quota(gpu_class="H100"))], [], "3", id="a limit of all classes"),
        pytest.param(
            [queue("red", Quota(zone="elsewhere")), BLUE], [], "0", id="a zone without GPUs"
        ),
        pytest.param(
            [queue("red", Quota()), make_queue("blue", guaranteed=4, lendable=1)], [], "3", id="what is not lent"
        ),
        pytest.param([queue("red", Quota(memory_limit_mib=81_920))], [], "1", id="a limit of memory"),
        pytest.param(
            [TenantQueue(name="top", quotas=(Quota(limit=2_000),)),
             TenantQueue(name="red", parent="top", namespaces=frozenset({"red"}), quotas=(Quota(),))],
            [], "2", id="a limit above it",
        ),
        pytest.param(
            [replace(queue("red", Quota(guaranteed=1_000)), parent="nowhere")], [], "0",
             id="a parent that does not exist: nothing starts",
        ),
    ],
)  # fmt: skip
def test_free_is_what_quotas_and_idle_gpus_allow(queues: list[TenantQueue], jobs: list[Job], free: str) -> None:
    assert shown(queues, *jobs)["free"] == free


@pytest.mark.parametrize(("asked", "starts"), [(2, True), (3, False)])
def test_a_job_of_what_is_free_starts_at_once_and_a_larger_one_does_not(asked: int, starts: bool) -> None:
    queues = [queue("red", Quota(gpu_class="H100", limit=3_000))]
    held = running("one", "h", 0)
    assert shown(queues, held)["free"] == "2"
    asks = make_job("asks", queue="red", workers=asked, classes=("H100",))
    plan = schedule(make_snapshot(nodes=NODES, queues=queues, jobs=[held, asks]))
    assert any(isinstance(action, Admit) for action in plan.actions) is starts


def test_jobs_are_counted_for_their_own_namespace() -> None:
    held, waits = running("one", "h", 0, 1), make_job("two", queue="red", workers=9)
    own = held.key.partition("/")[0]
    snapshot = make_snapshot(nodes=NODES, queues=RED, jobs=[held, waits])
    found = local_statuses(snapshot, [(own, "red"), ("also", "red")])
    assert [(one.used, one.used_here, one.running, one.pending) for one in found.values()] == [
        (2_000, 2_000, 1, 1),
        (2_000, 0, 0, 0),
    ]
