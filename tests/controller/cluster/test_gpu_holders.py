"""A committed placement beside what others hold of its GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from cotenant.controller.cluster.gpu_holders import GpuHolders
from cotenant.core.model.objects import Gpu, GpuRequest, Job, Node, Placement, Sharing
from tests.controller.builders import T0, placement_on


def job(key: str, placement: Placement, *, queue: str = "red", sharing: Sharing = Sharing.QUEUE, count: int = 1) -> Job:
    return Job(
        key=key, uid=key, namespace="red", queue=queue, workers_min=placement.workers, workers_max=placement.workers,
        gpu=GpuRequest(count=count, memory_milli=None if count > 1 else 400, sharing=sharing), submitted_at=T0,
        placement=placement,
    )  # fmt: skip


def node(name: str = "n1", *, open_to_all: bool = False) -> Node:
    gpus = tuple(Gpu(uuid=f"GPU-{name}-{i}", gpu_class="H100", memory_mib=81_920, index=i) for i in range(2))
    return Node(name=name, gpus=gpus, cpu_milli=1, memory_mib=1, shared_by_queues=open_to_all)


SHARE, WHOLE = placement_on(("n1", 1)), placement_on(("n1", 1), memory_mib=81_920, compute_milli=1000)
TINY, BUSY = (
    placement_on(("n1", 1), memory_mib=81_000, compute_milli=1),
    placement_on(("n1", 1), memory_mib=1, compute_milli=400),
)
N1 = node()


@dataclass(frozen=True)
class Beside:
    name: str
    mine: Job
    others: tuple[Job, ...] = ()
    there: Node | None = N1
    says: str = ""


CONFLICTS = [
    Beside("alone", job("red/a", SHARE)),
    Beside("two shares of a queue", job("red/a", SHARE), (job("red/b", SHARE),)),
    Beside("a whole GPU that nobody holds", job("red/a", WHOLE), (job("red/b", placement_on(("n2", 1))),)),
    Beside(
        "compute that is held already", job("red/a", BUSY), (job("red/b", BUSY), job("red/c", BUSY)),
        says="would be handed out 1.2 times (beside it: red/b, red/c)",
    ),
    Beside(
        "memory that is held already", job("red/a", TINY), (job("red/b", TINY),),
        says="has 81920 MiB, and 162000 MiB of it would be held (beside it: red/b)",
    ),
    Beside(
        "more memory than the GPU has", job("red/a", placement_on(("n1", 1), memory_mib=99_999)),
        says="99999 MiB of it would be held (beside it: nobody else)",
    ),
    Beside("a GPU that the node has not", job("red/a", placement_on(("n1", 3))), says="node n1 has no GPU GPU-n1-2"),
    Beside("a node that is not there", job("red/a", SHARE), there=None, says="there is no node n1 with GPUs"),
    Beside(
        "the share of another queue", job("red/a", SHARE), (job("blue/b", SHARE, queue="blue"),),
        says="is not shared with blue/b",
    ),
    Beside(
        "another queue where both and the node allow it", job("red/a", SHARE, sharing=Sharing.ANY),
        (job("blue/b", SHARE, queue="blue", sharing=Sharing.ANY),), node(open_to_all=True),
    ),
    Beside(
        "another queue where the node does not", job("red/a", SHARE, sharing=Sharing.ANY),
        (job("blue/b", SHARE, queue="blue", sharing=Sharing.ANY),), says="is not shared with blue/b",
    ),
    Beside(
        "a job that shares with nobody", job("red/a", SHARE), (job("red/b", SHARE, sharing=Sharing.NEVER),),
        says="is not shared with red/b",
    ),
    Beside("what is left of another queue's job", job("red/a", SHARE), (job("blue/b#uid-1", SHARE, queue="blue"),)),
]  # fmt: skip


@pytest.mark.parametrize("case", CONFLICTS, ids=lambda case: case.name)
def test_a_placement_is_held_against_what_there_is_and_what_others_hold(case: Beside) -> None:
    nodes = {case.there.name: case.there} if case.there else {}
    for noted in ((*case.others, case.mine), case.others):
        holders = GpuHolders()
        for one in noted:
            holders.replace(None, one, orphaned=one.key.endswith("#uid-1"))
        conflict = holders.conflict(case.mine, nodes)
        assert (conflict is not None and case.says in conflict) if case.says else conflict is None


def test_who_is_gone_is_in_nobodys_way() -> None:
    holders = GpuHolders()
    mine, second, third = jobs = [job(key, SHARE) for key in ("red/a", "red/b", "red/c")]
    for one in jobs:
        holders.replace(None, one)
    assert holders.conflict(mine, {"n1": node()})
    holders.replace(second, None)
    holders.replace(third, replace(third, placement=None))
    assert not holders.conflict(mine, {"n1": node()})
