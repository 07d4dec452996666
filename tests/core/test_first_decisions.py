"""Whole small clusters, one decision each: what is admitted where, and who waits with which reason."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from cotenant.core import schedule
from cotenant.core.model.objects import Job, Node, Placement, Sharing, TenantQueue, Topology, TopologyMode
from cotenant.core.model.plan import Admit, Reason
from cotenant.testing import make_job, make_node, make_placement, make_queue, make_snapshot


@dataclass(frozen=True)
class Case:
    name: str
    nodes: list[Node]
    queues: list[TenantQueue]
    jobs: list[Job]
    admitted: dict[str, Placement] = field(default_factory=dict)
    waiting: dict[str, Reason] = field(default_factory=dict)


RED = make_queue("red", guaranteed=8, limit=8)
ANY: dict[str, Any] = {"sharing": Sharing.ANY}
SHARED = make_node("n1", shared_by_queues=True)

CASES = [
    Case(
        name="one whole GPU goes to the node that already works, so that the other stays whole",
        nodes=[make_node("n1"), make_node("n2")],
        queues=[RED],
        jobs=[make_job("old", placement=make_placement(("n2", [[0]]))), make_job("new")],
        admitted={"red/new": make_placement(("n2", [[1]]))},
    ),
    Case(
        name="a gang lies on one node although the fuller node comes first",
        nodes=[make_node("n1", gpus=4), make_node("n2", gpus=4)],
        queues=[RED],
        jobs=[make_job("old", placement=make_placement(("n1", [[0]]))), make_job("gang", workers=4)],
        admitted={"red/gang": make_placement(("n2", [[0], [1], [2], [3]]))},
    ),
    Case(
        name="a gang that no node takes alone lies on as few as possible and the rest on the tightest",
        nodes=[make_node("n1", gpus=4), make_node("n2", gpus=2), make_node("n3", gpus=3)],
        queues=[RED],
        jobs=[make_job("gang", workers=6)],
        admitted={"red/gang": make_placement(("n1", [[0], [1], [2], [3]]), ("n2", [[0], [1]]))},
    ),
    Case(
        name="a gang that does not fit whole starts nothing",
        nodes=[make_node("n1", gpus=4)],
        queues=[RED],
        jobs=[make_job("old", placement=make_placement(("n1", [[0]]))), make_job("gang", workers=4)],
        waiting={"red/gang": Reason.WAITING_FOR_GPUS},
    ),
    Case(
        name="two shares of one job lie on two GPUs and a second tenant beside them where all allow it",
        nodes=[SHARED],
        queues=[make_queue("red", guaranteed=1, limit=2), make_queue("blue", guaranteed=1, limit=2)],
        jobs=[
            make_job("first", queue="red", milli=400, workers=2, at=1, **ANY),
            make_job("second", queue="blue", milli=400, workers=2, at=2, **ANY),
            make_job("third", queue="red", milli=400, workers=2, at=3, **ANY),
        ],
        admitted={
            "blue/second": make_placement(("n1", [[0], [1]]), milli=400),
            "red/first": make_placement(("n1", [[0], [1]]), milli=400),
        },
        waiting={"red/third": Reason.WAITING_FOR_GPUS},
    ),
    Case(
        name="two queues never share a GPU where the administrator has not allowed it for the node",
        nodes=[make_node("n1", gpus=1)],
        queues=[RED, make_queue("blue", guaranteed=1)],
        jobs=[
            make_job("mine", milli=400, placement=make_placement(("n1", [[0]]), milli=400), **ANY),
            make_job("yours", queue="blue", milli=400, **ANY),
        ],
        waiting={"blue/yours": Reason.WAITING_FOR_GPUS},
    ),
    Case(
        name="a job that says Never is not joined even by its own queue",
        nodes=[make_node("n1", gpus=1)],
        queues=[RED],
        jobs=[
            make_job("shy", milli=400, sharing=Sharing.NEVER, placement=make_placement(("n1", [[0]]), milli=400)),
            make_job("next", milli=400),
        ],
        waiting={"red/next": Reason.WAITING_FOR_GPUS},
    ),
    Case(
        name="ranks of a gloo job may lie on one GPU",
        nodes=[make_node("n1", gpus=1)],
        queues=[RED],
        jobs=[make_job("gloo", milli=500, workers=2, distinct_gpus=False)],
        admitted={"red/gloo": make_placement(("n1", [[0], [0]]), milli=500)},
    ),
    Case(
        name="NVLink peers are taken together",
        nodes=[make_node("n1", gpus=4, peers=((0, 2), (1, 3)))],
        queues=[RED],
        jobs=[make_job("pair", gpus=2)],
        admitted={"red/pair": make_placement(("n1", [[0, 2]]))},
    ),
    Case(
        name="the preferred class is taken first and the second when the first is full",
        nodes=[make_node("n1", gpus=1, gpu_class="A100"), make_node("n2", gpus=1)],
        queues=[RED],
        jobs=[make_job("a", at=1, classes=("H100", "A100")), make_job("b", at=2, classes=("H100", "A100"))],
        admitted={"red/a": make_placement(("n2", [[0]])), "red/b": make_placement(("n1", [[0]]))},
    ),
    Case(
        name="a node that failed the job is left out",
        nodes=[make_node("n1", gpus=1), make_node("n2", gpus=1)],
        queues=[RED],
        jobs=[make_job("a", excluded_nodes=frozenset({"n1"}))],
        admitted={"red/a": make_placement(("n2", [[0]]))},
    ),
    Case(
        name="priority goes before age",
        nodes=[make_node("n1", gpus=1)],
        queues=[RED],
        jobs=[make_job("early", at=1), make_job("late", at=2, priority=5)],
        admitted={"red/late": make_placement(("n1", [[0]]))},
        waiting={"red/early": Reason.WAITING_FOR_GPUS},
    ),
    Case(
        name="a queue inside its guarantee goes before one that would borrow",
        nodes=[make_node("n1", gpus=1)],
        queues=[make_queue("red", guaranteed=0), make_queue("blue", guaranteed=1)],
        jobs=[make_job("early", at=1), make_job("late", queue="blue", at=2)],
        admitted={"blue/late": make_placement(("n1", [[0]]))},
        waiting={"red/early": Reason.WAITING_FOR_GPUS},
    ),
    Case(
        name="a required rack is not crossed",
        nodes=[make_node("n1", rack="r1"), make_node("n2", rack="r2"), make_node("n3", gpus=1, rack="r2")],
        queues=[RED],
        jobs=[
            make_job("old", placement=make_placement(("n3", [[0]]))),
            make_job("gang", workers=3, topology=Topology("rack", TopologyMode.REQUIRED)),
        ],
        waiting={"red/gang": Reason.WAITING_FOR_TOPOLOGY},
    ),
    Case(
        name="GPUs without CPUs are not enough",
        nodes=[make_node("n1", cpu_milli=8_000)],
        queues=[RED],
        jobs=[
            make_job("old", cpu_milli=6_000, placement=make_placement(("n1", [[0]]))),
            make_job("a", cpu_milli=4_000),
        ],
        waiting={"red/a": Reason.WAITING_FOR_CPU_OR_MEMORY},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_cluster_is_decided_as_the_table_says(case: Case) -> None:
    plan = schedule(make_snapshot(nodes=case.nodes, queues=case.queues, jobs=case.jobs))

    assert {action.job: action.placement for action in plan.actions if isinstance(action, Admit)} == case.admitted
    assert {key: verdict.reason for key, verdict in plan.verdicts.items()} == case.waiting


def test_a_share_that_does_not_fit_is_told_how_the_gpus_stand() -> None:
    jobs = [make_job(f"j{index}", queue="red", milli=400, workers=2, at=index) for index in range(3)]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=[RED], jobs=jobs))

    assert plan.verdicts["red/j2"].message == (
        "Needs 2 workers × 0.4 GPU, each on a GPU of its own. Queue red allows it, but none of 2 workers fits now: "
        "on 2 GPUs 0.8 is taken and 0.2 left."
    )


REFUSED = {
    "a queue that does not exist": (make_job("a", queue="grey"), [RED], Reason.QUEUE_NOT_FOUND),
    "a namespace that the queue does not serve": (make_job("a", namespace="other"), [RED], Reason.NAMESPACE_NOT_SERVED),
    "a class that nobody has": (make_job("a", classes=("B200",)), [RED], Reason.CLASS_NOT_FOUND),
    "a zone that does not exist": (make_job("a", zones=("moon",)), [RED], Reason.ZONE_NOT_FOUND),
    "a class that the queue is not granted": (
        make_job("a"),
        [make_queue("red", guaranteed=1, gpu_class="A100")],
        Reason.NO_QUOTA,
    ),
    "a queue without any line": (make_job("a"), [make_queue("red")], Reason.NO_QUOTA),
    "more than the limit, ever": (make_job("a", workers=9), [RED], Reason.EXCEEDS_LIMIT),
    "more than the parent's limit, ever": (
        make_job("a", workers=2),
        [make_queue("top", limit=1), make_queue("red", limit=8, parent="top")],
        Reason.EXCEEDS_LIMIT,
    ),
    "a spent budget": (make_job("a"), [replace(RED, budget_left=0)], Reason.BUDGET_SPENT),
    "a hundred GPUs in a cluster of two": (
        make_job("a", workers=100),
        [make_queue("red", guaranteed=0)],
        Reason.EXCEEDS_CLUSTER,
    ),
    "a parent that does not exist": (make_job("a"), [replace(RED, parent="gone")], Reason.QUEUE_NOT_FOUND),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_never_start_is_refused_at_once_for(name: str) -> None:
    job, queues, reason = REFUSED[name]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=queues, jobs=[job]))

    assert plan.actions == ()
    assert plan.verdicts[job.key].reason == reason


def test_a_limit_that_is_used_up_is_said_in_numbers() -> None:
    queues = [make_queue("red", guaranteed=1, limit=3)]
    jobs = [make_job("old", gpus=2, placement=make_placement(("n1", [[0, 1]]))), make_job("new", gpus=2)]

    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=8)], queues=queues, jobs=jobs))

    verdict = plan.verdicts["red/new"]
    assert verdict.reason == Reason.WAITING_FOR_QUOTA
    assert dict(verdict.evidence) == {
        "metric": "GPU",
        "scope": "queue red, class any, zone any",
        "limit": 3000,
        "used": 2000,
        "asked": 2000,
        "available": 1000,
    }
    assert verdict.message == (
        "Needs 2 GPUs, together 2 GPU; queue red, class any, zone any: limit 3 GPU, used 2 GPU, available 1 GPU."
    )


def test_a_job_that_may_not_be_evicted_has_to_fit_into_a_guarantee() -> None:
    plan = schedule(
        make_snapshot(
            nodes=[make_node("n1")],
            queues=[make_queue("red", guaranteed=1, limit=2)],
            jobs=[make_job("a", gpus=2, preemptible=False)],
        )
    )

    assert plan.verdicts["red/a"].reason == Reason.EXCEEDS_LIMIT
    assert plan.verdicts["red/a"].message == (
        "Needs 2 GPUs, together 2 GPU, and may not be evicted; "
        "such jobs run only inside a guarantee, and queue red is guaranteed less."
    )


def test_nodes_without_a_rack_label_are_not_one_rack() -> None:
    plan = schedule(
        make_snapshot(
            nodes=[make_node("n1"), make_node("n2")],
            queues=[make_queue("red", guaranteed=4)],
            jobs=[make_job("a", workers=4, topology=Topology("rack", TopologyMode.REQUIRED))],
        )
    )

    assert plan.verdicts["red/a"].reason == Reason.EXCEEDS_CLUSTER


@pytest.mark.parametrize(
    ("job", "message"),
    [
        pytest.param(
            make_job("a", gpus=4),
            "Needs 4 GPUs; even an empty cluster holds only 0 of 1 such worker:"
            " a worker is on one node and asks for 4 GPUs,"
            " and no node has more than 2 GPUs.",
            id="GPUs",
        ),
        pytest.param(
            make_job("a", cpu_milli=500_000),
            "Needs 1 GPU; even an empty cluster holds only 0 of 1 such worker:"
            " a worker is on one node and asks for 500 CPU,"
            " and no node has more than 64 CPU.",
            id="CPU",
        ),
        pytest.param(
            make_job("a", memory_mib=1024 * 1024),
            "Needs 1 GPU; even an empty cluster holds only 0 of 1 such worker:"
            " a worker is on one node and asks for 1024 GiB"
            " of memory, and no node has more than 512 GiB of memory.",
            id="memory",
        ),
        pytest.param(
            make_job("a", workers=5),
            "Needs 5 workers × 1 GPU; even an empty cluster holds only 4 of 5 such workers.",
            id="too many workers, each of which would fit",
        ),
    ],
)
def test_a_job_that_no_node_could_hold_is_told_what_of_it_is_too_big(job: Job, message: str) -> None:
    plan = schedule(
        make_snapshot(
            nodes=[make_node("n1"), make_node("n2")], queues=[make_queue("red", guaranteed=8, limit=16)], jobs=[job]
        )
    )

    verdict = plan.verdicts["red/a"]
    assert (verdict.reason, verdict.message) == (Reason.EXCEEDS_CLUSTER, message)
