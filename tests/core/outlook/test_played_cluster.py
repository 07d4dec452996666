"""The cluster of a play: what jobs hold until when, and which wait, on a virtual clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry
from cotenant.core.cycle.search import find
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.outlook.played_cluster import PlayedCluster
from cotenant.core.placement import BestFit
from cotenant.core.policy import Policy
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

NOW = 1_000.0
POLICY = Policy(placer=BestFit(), reserve_within_s=100)


def running(name: str, column: int, *, at: float = 900.0, **changes: object) -> Job:
    job = make_job(name, placement=make_placement(("n1", [[column]])))
    return replace(job, admitted_at=at, **changes)  # type: ignore[arg-type]


def played(*jobs: Job, runs_on_s: dict[JobKey, float | None] | None = None) -> PlayedCluster:
    """A node of four GPUs. `runs_on_s`: how long jobs run on; others do so for 500 s."""
    queues = [make_queue("red", guaranteed=4), make_queue("blue", guaranteed=0)]
    cycle = Cycle.open(make_snapshot(nodes=[make_node("n1", gpus=4)], queues=queues, jobs=list(jobs)), POLICY)
    cluster = PlayedCluster(
        cycle,
        lambda job, _: (runs_on_s or {}).get(job.key, 500.0),
        RequestResolver(cycle.inventory, cycle.tree).resolve,
    )
    for key, job in cycle.running.by_key.items():
        cluster.hold(job, cycle.running.allocations[key], job.admitted_at or NOW)
    return cluster


def waiting(cluster: PlayedCluster) -> list[Job]:
    return [job for jobs in cluster.waiting.values() for job in jobs]


def free(cluster: PlayedCluster) -> int:
    return int(cluster.occupancy.ledger.free_compute.sum()) // 1000


def start(cluster: PlayedCluster, job: Job, until: float | None = None) -> None:
    request = cluster.wait(job)
    assert request is not None
    result = find(cluster.occupancy, request, request.workers)
    assert result is not None
    cluster.occupancy.allocate(result.allocation)
    entry = Entry(job)
    entry.admit(result.placement, until)
    cluster.start(entry, result.allocation, cluster.now)


def test_jobs_end_one_after_the_other_and_give_back_what_they_held() -> None:
    cluster = played(
        running("long", 0), running("short", 1), running("endless", 2),
        runs_on_s={"red/short": 50.0, "red/long": 70.0, "red/endless": None},
    )  # fmt: skip
    seen = []
    while (at := cluster.next_ending) is not None:
        before = free(cluster)
        cluster.end_next()
        seen.append((at, cluster.now, before, free(cluster), sorted(cluster.running.by_key)))
    assert seen == [
        (1_050.0, 1_050.0, 1, 2, ["red/endless", "red/long"]),
        (1_070.0, 1_070.0, 2, 3, ["red/endless"]),
    ]
    assert waiting(cluster) == []


def test_an_evicted_job_waits_again_and_keeps_its_saved_work() -> None:
    leaving = running("a", 0, at=900.0, evicting=True, ran_s=7, backfilled_until=950.0)
    cluster = played(leaving)
    leaves_at = cluster.next_ending
    cluster.end_next()
    bare = replace(leaving, placement=None, admitted_at=None, backfilled_until=None, evicting=False, ran_s=7 + 130)
    bare = replace(bare, requeued_at=NOW + 30)
    assert (leaves_at, waiting(cluster), free(cluster), cluster.next_ending) == (NOW + 30, [bare], 4, None)


def test_in_a_play_an_evicted_job_leaves_at_once_and_its_ending_is_dropped() -> None:
    job = running("a", 0, at=900.0)
    cluster = played(job, running("b", 1), runs_on_s={"red/a": 10.0})
    cluster.go_to(1_005.0)
    cluster.evict(["red/a"])
    assert waiting(cluster) == [replace(job, placement=None, admitted_at=None, ran_s=105, requeued_at=1_005.0)]
    assert (cluster.evicted, sorted(cluster.running.by_key), cluster.next_ending) == ({"red/a"}, ["red/b"], 1_500.0)


def test_equal_jobs_wait_by_age_and_jobs_that_can_never_start_are_left_out() -> None:
    cluster = played()
    old, new, urgent = (make_job(name, at=at, priority=p) for name, at, p in (("o", 1, 0), ("n", 2, 0), ("u", 3, 5)))
    for job in (new, urgent, old):
        assert cluster.wait(job) is not None
    assert cluster.wait(make_job("huge", gpus=5)) is None
    assert [[job.key for job in jobs] for jobs in cluster.waiting.values()] == [["red/o", "red/n"], ["red/u"]]


def test_a_start_is_noted_once_and_only_for_jobs_of_the_snapshot() -> None:
    cluster = played(runs_on_s={"red/a": 50.0})
    cluster.unstarted.add("red/a")
    job, other = make_job("a", at=1), make_job("b", at=2)
    cluster.go_to(1_010.0)
    start(cluster, job, until=1_050.0)
    start(cluster, other)
    assert (cluster.starts, cluster.unstarted, waiting(cluster), free(cluster)) == ({"red/a": 1_010.0}, set(), [], 2)
    held = cluster.running.by_key["red/a"]
    assert (held.admitted_at, held.backfilled_until, cluster.next_ending) == (1_010.0, 1_050.0, 1_060.0)
    cluster.evict(["red/a"])
    start(cluster, replace(job, ran_s=0))
    assert cluster.starts == {"red/a": 1_010.0}


def test_a_nominated_job_of_a_play_starts_when_the_jobs_that_leave_its_place_have_left() -> None:
    job = make_job("a", at=1)
    cluster = played(runs_on_s={"red/a": 50.0})
    cluster.start_nominated(job, make_placement(("n1", [[0]])))
    assert (cluster.starts, free(cluster)) == ({}, 4)
    cluster.unstarted.add("red/a")
    cluster.wait(job)
    cluster.start_nominated(job, make_placement(("n1", [[0]])))
    assert (cluster.starts, free(cluster), waiting(cluster)) == ({"red/a": NOW + 30}, 3, [])


def test_the_clock_of_a_play_does_not_go_back() -> None:
    cluster = played()
    cluster.go_to(1_010.0)
    cluster.go_to(1_005.0)
    assert cluster.now == 1_010.0


@pytest.mark.parametrize(("since", "ran_s"), [(900.0, 100.0), (1_000.0, 0.0), (1_050.0, 0.0)])
def test_the_remaining_run_time_is_drawn_given_the_time_it_has_run(since: float, ran_s: float) -> None:
    asked: list[tuple[str, float]] = []

    def draw(job: Job, ran: float) -> float:
        asked.append((job.key, ran))
        return 10.0

    queues, job = [make_queue("red", guaranteed=4)], running("a", 0, at=since)
    cycle = Cycle.open(make_snapshot(nodes=[make_node("n1", gpus=4)], queues=queues, jobs=[job]), POLICY)
    cluster = PlayedCluster(cycle, draw, RequestResolver(cycle.inventory, cycle.tree).resolve)
    cluster.hold(job, cycle.running.allocations["red/a"], since)

    assert (asked, cluster.next_ending) == ([("red/a", ran_s)], NOW + 10)


def test_when_one_of_equal_jobs_starts_the_others_wait_on() -> None:
    cluster = played()
    first, second = make_job("first", at=1.0), make_job("second", at=2.0)
    assert cluster.wait(second) is not None
    start(cluster, first)
    assert waiting(cluster) == [second]
