"""GPUs of each worker on a chosen node: different ones for a worker, no more of any than it takes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.model.objects import GpuRequest, Sharing
from cotenant.core.model.plan import Admit, Reason
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import Tenancy, shares_per_gpu
from cotenant.core.placement.gang import max_workers, place_gang
from cotenant.core.placement.gang_request import PlacementRequest
from cotenant.core.placement.shapes import Shape
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot

HALVES = GpuRequest(count=2, memory_milli=500)
RED = make_queue("red", guaranteed=99)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 3), st.integers(1, 5), st.booleans())
def test_a_workers_shares_lie_on_different_gpus_and_no_gpu_is_overcommitted(
    taken: list[int], count: int, tenths: int, distinct: bool
) -> None:
    """The largest gang that is promised is placed, and the ledger is sound with it; one more worker has no place."""
    ledger = Ledger.of([make_node("n1", gpus=len(taken), memory_mib=1_000)])
    for column, part in enumerate(taken):
        if part:
            ledger.allocate(NodeAllocation(0, (column,), (part * 100,), (part * 100,), 0, 0, 1, Sharing.QUEUE))
    shape = Shape(count=count, whole=False, memory_milli=tenths * 100)
    ask = PlacementRequest(shape, Tenancy(1), slice(None), distinct=distinct)
    most = max_workers(FitCache(ledger, BestFit()), ask)
    assert place_gang(FitCache(ledger, BestFit()), ask, most + 1) is None
    if not most:
        return
    found = place_gang(FitCache(ledger, BestFit()), ask, most)
    assert found is not None
    ((_, workers),) = found
    assert [len(set(columns)) for columns in workers] == [count] * most
    used = Counter(column for columns in workers for column in columns)
    shares = shares_per_gpu(ledger, shape, np.array([0]))[0]
    assert all(number <= (1 if distinct else shares[column]) for column, number in used.items())
    columns = tuple(used.elements())
    amounts = (tenths * 100,) * len(columns)
    ledger.allocate(NodeAllocation(0, columns, amounts, amounts, 0, 0, 1, Sharing.QUEUE))
    assert ledger.sound()


def test_two_such_jobs_share_a_pair_of_gpus_and_a_third_waits_for_it() -> None:
    jobs = [make_job(name, gpu=HALVES, at=number) for number, name in enumerate("abc")]
    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=[RED], jobs=jobs))
    given = {action.job: action.placement for action in plan.actions if isinstance(action, Admit)}
    assert given == dict.fromkeys(("red/a", "red/b"), make_placement(("n1", [[0, 1]]), milli=500))
    assert plan.verdicts["red/c"].reason is Reason.WAITING_FOR_GPUS


def test_two_gpus_with_room_on_two_nodes_are_not_enough_and_the_message_says_so() -> None:
    jobs = [
        make_job("x", placement=make_placement(("n1", [[0]]), ("n2", [[0]])), workers=2, admitted_at=0.0),
        make_job("a", gpu=HALVES),
    ]
    verdict = schedule(make_snapshot(nodes=[make_node("n1"), make_node("n2")], queues=[RED], jobs=jobs)).verdicts[
        "red/a"
    ]
    assert "Needs 0.5 of each of 2 GPUs." in verdict.message
    assert "at most 1 GPU of one node would fit" in verdict.message
    assert verdict.change == (("spec.gpu.count", "1"),)


@pytest.mark.parametrize(("limit", "admitted"), [(1, ["red/a"]), (2, ["red/a", "red/b"])])
def test_quotas_count_the_share_on_each_gpu(limit: int, admitted: list[str]) -> None:
    toy = ToyCluster(
        [make_node("n1", gpus=8)],
        [make_queue("red", guaranteed=limit, limit=limit)],
        [make_job(name, gpu=HALVES, at=number) for number, name in enumerate("ab")],
    )
    toy.settle()
    assert [key for key, job in toy.jobs.items() if job.placement is not None] == admitted


def test_linked_gpus_first_and_each_worker_on_its_own_pair() -> None:
    node = make_node("n1", gpus=4, peers=((0, 2), (1, 3)))
    plan = schedule(make_snapshot(nodes=[node], queues=[RED], jobs=[make_job("a", gpu=HALVES, workers=2)]))
    (action,) = plan.actions
    assert isinstance(action, Admit)
    assert action.placement == make_placement(("n1", [[0, 2], [1, 3]]), milli=500)
