"""The turns of one cycle of a play: which jobs start, and which leave for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.cycle.cycle import Cycle
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import Job, TenantQueue, TimeOrder
from cotenant.core.outlook.played_cluster import PlayedCluster
from cotenant.core.outlook.turns import Turns
from cotenant.core.placement import BestFit
from cotenant.core.policy import Policy
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

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
    """Jobs in the order of their starts in one cycle, and the number of turns and starts."""
    turns = Turns(cluster)
    number = sum(1 for _ in turns.of_all())
    turns.close()
    return list(cluster.starts), number


def test_if_one_of_equal_jobs_finds_no_place_the_others_take_no_turn() -> None:
    jobs = [make_job(f"j{number}", at=number) for number in range(5)]
    assert starts(played(*jobs, gpus=2)) == (["red/j0", "red/j1"], 3 + 2)


def test_a_started_job_counts_once_in_the_order_of_queues() -> None:
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
    assert (len(list(turns.of_all())), turns.evicted) == (1 + 1, True)
    assert (cluster.starts, cluster.evicted) == ({"red/urgent": 1_000.0}, {"red/low"})
    assert [job.key for jobs in cluster.waiting.values() for job in jobs] == ["red/low"]


def test_surplus_workers_leave_for_a_waiting_job() -> None:
    long = replace(make_job("elastic", workers=(1, 2), placement=make_placement(("n1", [[0], [1]]))), admitted_at=900.0)
    cluster = played(replace(long, priority=9), make_job("urgent", priority=10, at=1), gpus=2)
    turns = Turns(cluster)
    list(turns.of_all())
    turns.close()
    assert (turns.evicted, list(cluster.starts), cluster.evicted) == (True, ["red/urgent"], set())
    workers = {key: job.placement.workers for key, job in cluster.running.by_key.items() if job.placement}
    assert workers == {"red/elastic": 1, "red/urgent": 1}
    assert sum(cluster.occupancy.ledger.free_compute.flatten().tolist()) == 0


def test_an_arriving_job_takes_its_turn_alone_if_no_earlier_answer_may_have_changed() -> None:
    cluster = played(running("held", 0), gpus=2)
    turns = Turns(cluster)
    assert list(turns.of_all()) == []
    job = make_job("new", at=5)
    cluster.unstarted.add(job.key)
    request = cluster.wait(job)
    assert request is not None
    assert turns.of_one(job, request) is True
    assert cluster.starts == {"red/new": 1_000.0}


@pytest.mark.parametrize(("comes_at", "alone"), [(1_039.0, True), (1_040.0, False)])
def test_after_a_promise_was_overrun_an_arrival_makes_all_jobs_take_turns_again(comes_at: float, alone: bool) -> None:
    queues = (make_queue("red", guaranteed=0),)
    late, waits = running("late", 0, backfilled_until=1_040.0), make_job("waits", gpus=2, at=1)
    cluster = played(late, waits, gpus=2, queues=queues, policy=replace(POLICY, reserve_within_s=0))
    turns = Turns(cluster)
    list(turns.of_all())
    cluster.go_to(comes_at)
    job = make_job("new", at=comes_at)
    request = cluster.wait(job)
    assert request is not None
    assert turns.of_one(job, request) is alone


def test_a_place_is_reserved_for_the_first_job_and_a_short_one_is_backfilled() -> None:
    held = running("held", 0, expected_runtime_s=400)
    big = make_job("big", gpus=2, at=1)
    short, long = (make_job(f"s{s}", at=2, expected_runtime_s=s) for s in (100, 9_000))
    cluster = played(held, big, long, short, gpus=2)
    assert starts(cluster)[0] == ["red/s100"]
    assert cluster.running.by_key["red/s100"].backfilled_until == 1_100.0
    assert sum(cluster.occupancy.ledger.free_compute.flatten().tolist()) == 0


def test_a_job_with_less_service_goes_before_an_older_one_if_its_queue_orders_by_service() -> None:
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
def test_of_equal_jobs_the_first_that_ends_before_the_reservation_is_backfilled(
    runtimes: tuple[int | None, ...], backfilled: list[str]
) -> None:
    held = running("held", 0, expected_runtime_s=500)
    equal = [make_job(f"j{n}", at=2.0 + n, expected_runtime_s=s) for n, s in enumerate(runtimes)]
    assert starts(played(held, make_job("big", gpus=2, at=1), *equal, gpus=2))[0] == backfilled


COLLECTS = replace(POLICY, collect_after_s=500)


def test_overdue_jobs_go_each_by_its_own_wait() -> None:
    jobs = [make_job("first", at=1), make_job("second", at=2, cpu_milli=1), make_job("third", at=3)]

    assert starts(played(*jobs, gpus=2, policy=COLLECTS))[0] == ["red/first", "red/second"]
    assert starts(played(*jobs, gpus=3, policy=COLLECTS))[0] == ["red/first", "red/second", "red/third"]


@pytest.mark.parametrize(
    ("waits_since", "alone"),
    [((541.0, 560.0), True), ((540.0, 560.0), False), ((560.0, 540.0), False), ((560.0, 541.0), True)],
    ids=["nobody yet", "the first just now", "the second just now", "nobody yet, the second first"],
)
def test_an_arriving_job_takes_its_turn_alone_until_a_job_is_overdue(
    waits_since: tuple[float, float], alone: bool
) -> None:
    """The job is overdue at 1,040 s, with a patience of 500 s."""
    wide = [make_job(f"w{number}", gpus=2, cpu_milli=number, at=since) for number, since in enumerate(waits_since)]
    cluster = played(running("held", 0), *wide, gpus=2, policy=replace(COLLECTS, reserve_within_s=0))
    turns = Turns(cluster)
    list(turns.of_all())
    cluster.go_to(1_040.0)
    job = make_job("new", at=1_040)
    request = cluster.wait(job)
    assert request is not None

    assert turns.of_one(job, request) is alone


def test_a_started_job_counts_when_the_next_queue_is_chosen() -> None:
    """Blue holds three; red holds four after its first start, and blue has the last one."""
    queues = (make_queue("red", guaranteed=0), make_queue("blue", guaranteed=0), make_queue("green", guaranteed=8))
    jobs = (
        running("held", 0, 1, 2, queue="blue"),
        make_job("first", gpus=4, at=1),
        make_job("second", at=2),
        make_job("other", queue="blue", at=3),
    )

    assert starts(played(*jobs, gpus=8, queues=queues))[0] == ["red/first", "blue/other"]


def test_a_job_inside_its_guarantee_reclaims_lent_gpus() -> None:
    queues = (make_queue("red", guaranteed=1), make_queue("blue", guaranteed=0))
    cluster = played(running("guest", 0, queue="blue"), make_job("owner"), gpus=1, queues=queues)

    assert (starts(cluster)[0], cluster.evicted) == (["red/owner"], {"blue/guest"})


def test_a_job_that_overran_its_promise_leaves_for_a_job_without_a_guarantee() -> None:
    queues = (make_queue("red", guaranteed=0),)
    cluster = played(running("late", 0, backfilled_until=1_000.0), make_job("next"), gpus=1, queues=queues)

    assert (starts(cluster)[0], cluster.evicted) == (["red/next"], {"red/late"})


@pytest.mark.parametrize(("comes_at", "alone"), [(1_199.0, True), (1_200.0, False)])
def test_after_a_protected_time_ended_an_arrival_makes_all_jobs_take_turns_again(comes_at: float, alone: bool) -> None:
    policy = replace(POLICY, protected_runtime_s=300)
    cluster = played(running("low", 0), make_job("urgent", priority=5), gpus=1, policy=policy)
    turns = Turns(cluster)
    list(turns.of_all())
    cluster.go_to(comes_at)
    job = make_job("new", at=comes_at)
    request = cluster.wait(job)
    assert request is not None

    assert (turns.evicted, turns.of_one(job, request)) == (False, alone)


BORROWS = (make_queue("red", guaranteed=0), make_queue("blue", guaranteed=1))
URGENT = make_job("urgent", gpus=2, at=999, priority=9)


@pytest.mark.parametrize(
    ("jobs", "gpus", "queues", "want"),
    [
        pytest.param([make_job("late", gpus=2, at=400), URGENT], 2, (RED,), ["red/late"], id="who waits too long"),
        pytest.param(
            [make_job("late", gpus=2, at=500), URGENT], 2, (RED,), ["red/late"], id="from that very moment on"
        ),
        pytest.param([make_job("late", gpus=2, at=501), URGENT], 2, (RED,), ["red/urgent"], id="and not before"),
        pytest.param(
            [make_job("late", gpus=2, at=1), make_job("young", gpus=2, at=998), URGENT], 4, (RED,),
            ["red/late", "red/urgent"], id="not who asks for the same and has not waited",
        ),
        pytest.param(
            [*(make_job(name, at=at) for name, at in (("x1", 1), ("x2", 50), ("x3", 450))),
             make_job("y", at=60, cpu_milli=1), URGENT], 3, (RED,), ["red/x1", "red/x2", "red/y"],
            id="each by how long it waits, whatever others wait who ask for the same",
        ),
        pytest.param(
            [running("held", 0), make_job("late", gpus=2, at=1), make_job("also", at=2), URGENT], 2, (RED,), [],
            id="what is kept for the first of a class is for no other",
        ),
        pytest.param(
            [make_job("late", gpus=2, at=1), make_job("guest", queue="blue", at=999),
             make_job("small", at=999, priority=9)], 3, BORROWS, ["blue/guest", "red/late"],
            id="who has to borrow after those who need not, and before others who have to",
        ),
        pytest.param(
            [running("own", 0, queue="blue"), make_job("late", gpus=2, at=1),
             make_job("small", at=999, priority=9)], 2, BORROWS, ["red/small"],
            id="nothing is reserved for who does not fit beside guarantees in use",
        ),
        pytest.param(
            [make_job("late", gpus=2, at=1), make_job("small", at=999, priority=9)], 5, BORROWS,
            ["red/late", "red/small"], id="it has one turn",
        ),
    ],
)  # fmt: skip
def test_while_gpus_are_reserved_for_an_overdue_job_start(
    jobs: list[Job], gpus: int, queues: tuple[TenantQueue, ...], want: list[str]
) -> None:
    assert starts(played(*jobs, gpus=gpus, queues=queues, policy=COLLECTS))[0] == want


def test_borrowers_of_its_own_queue_leave_for_an_overdue_job() -> None:
    queues = (make_queue("red", guaranteed=2), make_queue("blue", guaranteed=2))
    held = [running(name, column, submitted_at=2.0) for column, name in enumerate(("covered", "also", "lent"))]
    cluster = played(*held, make_job("gang", gpus=2, at=1), gpus=4, queues=queues, policy=COLLECTS)
    assert (starts(cluster)[0], cluster.evicted) == (["red/gang"], {"red/lent"})


@pytest.mark.parametrize(("limit", "want"), [(1, ["blue/guest"]), (2, [])], ids=["quota alone", "or GPUs"])
def test_if_only_quota_is_missing_only_quota_is_reserved(limit: int, want: list[str]) -> None:
    queues = (make_queue("red", guaranteed=0, limit=limit), make_queue("blue", guaranteed=0))
    jobs = [running("held", 0, max_runtime_s=500), make_job("late", gpus=limit, at=1),
            make_job("guest", queue="blue", at=999)]  # fmt: skip
    assert starts(played(*jobs, gpus=2, queues=queues, policy=COLLECTS))[0] == want


@pytest.mark.parametrize(
    ("new", "alone"),
    [
        pytest.param(make_job("new", at=5, expected_runtime_s=9_000), True, id="behind it"),
        pytest.param(make_job("new", at=5, priority=1, expected_runtime_s=9_000), False, id="before it"),
        pytest.param(make_job("new", at=5, queue="blue", expected_runtime_s=9_000), False, id="of another queue"),
    ],
)
def test_an_arriving_job_takes_its_turn_alone_beside_a_reservation(new: Job, alone: bool) -> None:
    queues = (make_queue("red", guaranteed=2), make_queue("blue", guaranteed=0))
    held = running("held", 0, expected_runtime_s=400)
    cluster = played(held, make_job("big", gpus=2, at=1), gpus=2, queues=queues)
    turns = Turns(cluster)
    list(turns.of_all())
    request = cluster.wait(new)
    assert request is not None
    assert (turns.of_one(new, request), cluster.starts) == (alone, {})


def test_after_one_too_long_job_only_shorter_equal_jobs_are_backfilled() -> None:
    held = running("held", 0, expected_runtime_s=400)
    equal = [make_job(f"j{n}", at=2.0 + n, max_runtime_s=s) for n, s in enumerate((900, 300, 300, 450))]
    cluster = played(held, make_job("big", gpus=4, at=1), *equal, gpus=4)
    assert starts(cluster)[0] == ["red/j1", "red/j2"]


def test_a_job_of_a_child_queue_reclaims_its_parents_guarantee() -> None:
    """Its own queue is guaranteed nothing, the one above is."""
    queues = (
        make_queue("top", guaranteed=1), make_queue("red", guaranteed=0, parent="top"), make_queue("blue", guaranteed=0)
    )  # fmt: skip
    cluster = played(running("guest", 0, queue="blue"), make_job("owner"), gpus=1, queues=queues)
    assert (starts(cluster)[0], cluster.evicted) == (["red/owner"], {"blue/guest"})


def elastic() -> Job:
    place = make_placement(("n1", [[0], [1]]))
    return replace(make_job("elastic", workers=(1, 2), placement=place), admitted_at=900.0)


def test_an_evicted_elastic_job_leaves_with_its_surplus() -> None:
    cluster = played(elastic(), running("low", 2), make_job("urgent", gpus=3, priority=10, at=1), gpus=3)
    assert (starts(cluster)[0], cluster.evicted) == (["red/urgent"], {"red/elastic", "red/low"})


def test_if_surplus_workers_suffice_no_job_is_evicted() -> None:
    cluster = played(elastic(), make_job("other", at=1), gpus=2)
    assert (starts(cluster)[0], cluster.evicted) == (["red/other"], set())


@pytest.mark.parametrize(("gpus", "second"), [(4, "blue/other"), (2, "red/second")])
def test_a_reservation_for_an_overdue_job_counts_once_in_the_order_of_queues(gpus: int, second: str) -> None:
    """Blue holds three; one GPU is left."""
    queues = (make_queue("red", guaranteed=0), make_queue("blue", guaranteed=0), make_queue("green", guaranteed=8))
    jobs = (
        running("held", 0, 1, 2, queue="blue"),
        make_job("first", gpus=gpus, at=1),
        make_job("second", at=998),
        make_job("other", queue="blue", at=999),
    )
    assert starts(played(*jobs, gpus=4 + gpus, queues=queues, policy=COLLECTS))[0] == ["red/first", second]


def test_a_job_that_became_overdue_and_had_its_turn_takes_no_other_one_when_a_job_arrives() -> None:
    queues = (make_queue("red", guaranteed=0),)
    cluster = played(running("held", 0), make_job("late", gpus=2, at=500), gpus=2, queues=queues, policy=COLLECTS)
    turns = Turns(cluster)
    list(turns.of_all())
    new = make_job("new", at=1_000)
    request = cluster.wait(new)
    assert request is not None
    assert turns.of_one(new, request) is True


def test_a_place_is_reserved_for_a_job_whose_limit_is_exactly_what_it_asks_for() -> None:
    queues = (make_queue("red", guaranteed=0, limit=2), make_queue("blue", guaranteed=0))
    held = running("held", 0, queue="blue", expected_runtime_s=400)
    jobs = [held, make_job("big", gpus=2, at=1), make_job("small", at=2)]
    assert starts(played(*jobs, gpus=2, queues=queues))[0] == []


@pytest.mark.parametrize(
    ("later_s", "number"),
    [((300, 301), 3), ((299, 301), 4), ((300, 299), 4), ((401, 402), 3)],
    ids=["none for less", "the next for less", "the one after it for less", "none in time"],
)
def test_after_a_job_that_was_too_long_only_shorter_ones_take_turns(later_s: tuple[int, int], number: int) -> None:
    """A place is kept for 400 s, and no GPU is there that an equal job could have until then."""
    held, wide = running("held", 0, expected_runtime_s=400), running("wide", 1, expected_runtime_s=9_000)
    equal = [make_job(f"j{n}", at=2.0 + n, expected_runtime_s=s) for n, s in enumerate((300, *later_s))]
    jobs = [held, wide, make_job("big", at=1, cpu_milli=1), make_job("next", at=1.5, cpu_milli=2), *equal]

    assert starts(played(*jobs, gpus=2))[1] == number


def test_a_job_nominated_for_a_place_starts_when_the_leaving_job_has_left() -> None:
    cluster = played(running("leaves", 0, evicting=True), make_job("next", at=1), gpus=1)

    assert (starts(cluster)[0], cluster.starts) == (["red/next"], {"red/next": 1_030.0})


def test_an_arriving_job_starts_beside_a_job_that_was_nominated_before_it() -> None:
    cluster = played(running("leaves", 0, 1, evicting=True), make_job("next", gpus=2, at=1), gpus=3)
    turns = Turns(cluster)
    list(turns.of_all())
    new = make_job("new", at=1_000)
    cluster.unstarted.add(new.key)
    request = cluster.wait(new)
    assert request is not None
    assert turns.of_one(new, request) is True
    assert (cluster.starts, cluster.waiting) == ({"red/next": 1_030.0, "red/new": 1_000.0}, {})


def test_a_job_evicted_in_a_cycle_is_no_victim_again() -> None:
    """It is the only one that may leave, and both ask for its place."""
    queues = (make_queue("red", guaranteed=2), make_queue("blue", guaranteed=0))
    lent = running("lent", 0, queue="blue")
    cluster = played(lent, make_job("a", at=1), make_job("b", at=2), gpus=1, queues=queues)

    assert (starts(cluster)[0], cluster.evicted) == (["red/a"], {"blue/lent"})
