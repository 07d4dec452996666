"""Whole small clusters, one decision each: what is admitted where, and which job waits for which reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from cotenant.core.model.objects import Job, Node, Placement, Sharing, Spread, TenantQueue, Topology, TopologyMode
from cotenant.core.model.plan import Admit, Reason, Resize
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot


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
        name="a gang that is to be spread lies on different nodes",
        nodes=[make_node("n1"), make_node("n2")],
        queues=[RED],
        jobs=[make_job("gang", workers=2, spread=Spread("node", TopologyMode.PREFERRED))],
        admitted={"red/gang": make_placement(("n1", [[0]]), ("n2", [[0]]))},
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


def test_an_elastic_job_that_shrinks_for_another_does_not_grow_elsewhere_in_the_same_cycle() -> None:
    nodes = [make_node("n1", gpus=4), make_node("n2", gpus=2)]
    elastic = make_job("elastic", workers=(1, 8), placement=make_placement(("n1", [[0], [1], [2], [3]])))

    plan = schedule(make_snapshot(nodes=nodes, queues=[RED], jobs=[elastic, make_job("new", gpus=3, at=1.0)]))

    (resize,) = plan.actions
    assert isinstance(resize, Resize)
    assert resize.placement == make_placement(("n1", [[0]]))
    assert plan.nominations == {"red/new": make_placement(("n1", [[1, 2, 3]]))}
