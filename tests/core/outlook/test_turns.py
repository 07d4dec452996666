"""The turns of one cycle of a play: who starts, and who leaves for whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core import Policy
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import Job, TenantQueue, TimeOrder
from cotenant.core.outlook.played_cluster import PlayedCluster
from cotenant.core.outlook.turns import Turns
from cotenant.core.placement import BestFit
from cotenant.testing import make_job, make_node, make_placement, make_queue, make_snapshot

POLICY = Policy(placer=BestFit(), protected_runtime_s=0)
RED = make_queue("red", guaranteed=8)


def running(name: str, *columns: int, queue: str = "red", **changes: object) -> Job:
    """One worker on these GPUs of `n1`, since 100 s."""
    job = make_job(name, queue=queue, gpus=len(columns), placement=make_placement(("n1", [list(columns)])))
    return replace(job, admitted_at=900.0, **changes)  # type: ignore[arg-type]


def played(*jobs: Job, gpus: int, queues: tuple[TenantQueue, ...] = (RED,), policy: Policy = POLICY) -> PlayedCluster:
    snapshot = make_snapshot(nodes=[make_node("n1", gpus=gpus)], queues=list(queues), jobs=list(jobs))
    cycle = Cycle.open(snapshot, policy)
    cluster = PlayedCluster(cycle, lambda *_: 500.0, RequestResolver(cycle.inventory, cycle.tree).resolve)
    for key, job in cycle.running.by_key.items():
        cluster.hold(job, cycle.running.allocations[key], job.admitted_at or snapshot.now)
    for entry in cycle.entries:
        if cluster.wait(entry.job) is not None:
            cluster.unstarted.add(entry.job.key)
    return cluster


def starts(cluster: PlayedCluster) -> tuple[list[str], int]:
    """Jobs in the order of their starts in one cycle, and the number of turns."""
    turns = Turns(cluster)
    number = sum(1 for _ in turns.of_all())
    turns.close()
    return list(cluster.starts), number


def test_of_equal_jobs_one_that_finds_no_place_takes_the_turn_of_all() -> None:
    jobs = [make_job(f"j{number}", at=number) for number in range(5)]
    assert starts(played(*jobs, gpus=2)) == (["red/j0", "red/j1"], 3)


def test_what_starts_counts_once_in_the_order_of_queues() -> None:
    """Both borrow: the queue that holds less goes first. Red holds two GPUs after its first start, blue three."""
    queues = (make_queue("red", guaranteed=0), make_queue("blue", guaranteed=0), make_queue("green", guaranteed=8))
    jobs = (
        running("held", 0, 1, 2, queue="blue"),
        make_job("first", gpus=2, at=1),
        make_job("second", gpus=3, at=2),
        make_job("other", queue="blue", gpus=3, at=0),
    )
    assert starts(played(*jobs, gpus=8, queues=queues))[0] == ["red/first", "red/second"]


def test_a_job_of_higher_priority_starts_where_one_of_lower_leaves() -> None:
    cluster = played(running("low", 0), make_job("urgent", priority=5, at=1), gpus=1)
    turns = Turns(cluster)
    assert (len(list(turns.of_all())), turns.evicted) == (1, True)
    assert (cluster.starts, cluster.evicted) == ({"red/urgent": 1_000.0}, {"red/low"})
    assert [job.key for jobs in cluster.waiting.values() for job in jobs] == ["red/low"]


def test_workers_above_the_minimum_are_no_place_in_a_play() -> None:
    elastic = make_job("elastic", workers=(1, 2), placement=make_placement(("n1", [[0], [1]])))
    elastic = replace(elastic, admitted_at=900.0, priority=9)
    cluster = played(elastic, make_job("urgent", priority=10, at=1), gpus=2)
    turns = Turns(cluster)
    list(turns.of_all())
    assert (turns.evicted, cluster.starts, sorted(cluster.running.by_key)) == (False, {}, ["red/elastic"])


def test_a_job_that_comes_has_its_turn_alone_where_nothing_that_was_decided_may_be_other_by_now() -> None:
    cluster = played(running("held", 0), gpus=2)
    turns = Turns(cluster)
    assert list(turns.of_all()) == []
    job = make_job("new", at=5)
    cluster.unstarted.add(job.key)
    request = cluster.wait(job)
    assert request is not None
    assert turns.of_one(job, request) is True
    assert cluster.starts == {"red/new": 1_000.0}


def test_a_job_that_comes_when_another_has_outlived_its_word_makes_all_have_turns_again() -> None:
    cluster = played(running("late", 0, backfilled_until=1_000.0), gpus=2)
    turns = Turns(cluster)
    list(turns.of_all())
    job = make_job("new", at=5)
    request = cluster.wait(job)
    assert request is not None
    assert turns.of_one(job, request) is False
    assert cluster.starts == {}


def test_a_place_is_kept_for_the_first_and_a_short_job_is_backfilled_before_it() -> None:
    held = running("held", 0, expected_runtime_s=400)
    big = make_job("big", gpus=2, at=1)
    short, long = (make_job(f"s{s}", at=2, expected_runtime_s=s) for s in (100, 9_000))
    cluster = played(held, big, long, short, gpus=2)
    assert starts(cluster)[0] == ["red/s100"]
    assert cluster.running.by_key["red/s100"].backfilled_until == 1_100.0
    assert sum(cluster.occupancy.ledger.free_compute.flatten().tolist()) == 0


def test_a_job_that_has_done_less_goes_before_who_came_first_where_its_queue_orders_by_service() -> None:
    served = make_queue("red", guaranteed=8, order=TimeOrder.LEAST_SERVICE)
    done = make_job("done", at=1, ran_s=40 * 3_600)
    fresh = make_job("fresh", at=2)
    assert starts(played(done, fresh, gpus=1, queues=(served,)))[0] == ["red/fresh"]
    assert starts(played(done, fresh, gpus=1))[0] == ["red/done"]


@pytest.mark.parametrize(
    ("runtimes", "backfilled"),
    [
        pytest.param((500, 300), ["red/j1"], id="the second ends in time"),
        pytest.param((500, 400), ["red/j1"], id="just in time"),
        pytest.param((500, 401), [], id="a second too late"),
        pytest.param((None, 300), ["red/j1"], id="the first says nothing"),
        pytest.param((300, 300), ["red/j0"], id="both would, and there is room for one"),
    ],
)
def test_of_equal_jobs_the_first_that_ends_before_a_kept_place_is_needed_is_backfilled(
    runtimes: tuple[int | None, ...], backfilled: list[str]
) -> None:
    held = running("held", 0, expected_runtime_s=500)
    equal = [make_job(f"j{n}", at=2.0 + n, expected_runtime_s=s) for n, s in enumerate(runtimes)]
    assert starts(played(held, make_job("big", gpus=2, at=1), *equal, gpus=2))[0] == backfilled
