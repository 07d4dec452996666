"""A change of leader in the middle of a story: what is stored gives the plans that the old leader would have made."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.model.failover import BorrowingRecord, FailoverState
from cotenant.core.model.objects import Job, Node, TenantQueue
from cotenant.core.model.plan import Action, Admit, Plan, Reason
from cotenant.core.queueing.fair_share import borrowed
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.state.cluster_state import ClusterState
from cotenant.core.state.facts import NodeObserved, QueueObserved
from tests.core.worlds.test_properties import clusters
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue

HOUR = 3_600.0


def written(cluster: ToyCluster, plan: Plan, ended: tuple[tuple[Job, float], ...] = ()) -> FailoverState:
    """What stands in the statuses: whole milli-GPU-seconds, and who was told that room is being made."""
    snapshot = cluster.snapshot()
    standing = Accounting.of(snapshot.nodes, snapshot.queues, snapshot.jobs)
    rates = {queue.name: borrowed(standing.usage, number) for number, queue in enumerate(standing.tree.queues)}
    return FailoverState(
        borrowing=tuple(
            BorrowingRecord(
                queue=past.queue,
                milli_seconds=int(past.milli_seconds),
                rate_milli=rates[past.queue].get(None, sum(rates[past.queue].values())),
                at=snapshot.now,
                half_life_s=int(past.half_life_s),
            )
            for past in snapshot.usage_history
        ),
        ended=ended,
        nominated=tuple(key for key, verdict in plan.verdicts.items() if verdict.reason is Reason.WAITING_FOR_EVICTION),
    )


def new_leader(
    nodes: list[Node], queues: list[TenantQueue], old: ToyCluster, handover: FailoverState | None
) -> ToyCluster:
    fresh = ToyCluster((), ())
    fresh.now = old.now
    if handover is not None:
        fresh.state.restore(handover, old.now)
    for node in nodes:
        fresh.state.observe(NodeObserved(node))
    for queue in queues:
        fresh.state.observe(QueueObserved(queue))
    for job in old.jobs.values():
        fresh.observe(job)
    return fresh


def who(actions: tuple[Action, ...]) -> list[tuple[str, str]]:
    return sorted((type(action).__name__, action.job) for action in actions)


def test_a_queue_that_borrowed_for_hours_still_comes_last_after_a_change_of_leader() -> None:
    nodes = [make_node("n1", gpus=2)]
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=0)]
    old = ToyCluster(nodes, queues, [make_job("long", queue="red", gpus=2)])
    old.cycle()
    old.now += 10 * HOUR
    old.snapshot()
    old.end("red/long")
    old.observe(make_job("more", queue="red", gpus=2, at=old.now - 2))
    old.observe(make_job("first", queue="blue", gpus=2, at=old.now - 1))

    told = new_leader(nodes, queues, old, written(old, Plan()))
    knows_nothing = new_leader(nodes, queues, old, None)

    assert who(told.cycle().actions) == who(old.cycle().actions) == [("Admit", "blue/first")]
    assert who(knows_nothing.cycle().actions) == [("Admit", "red/more")]


def test_borrowing_since_the_last_write_counts_as_well() -> None:
    nodes, queues = [make_node("n1", gpus=2)], [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=0)]
    old = ToyCluster(nodes, queues, [make_job("long", queue="red", gpus=2)])
    old.cycle()
    old.now += HOUR
    early = written(old, Plan())
    old.now += 9 * HOUR
    told = new_leader(nodes, queues, old, early)

    (there,) = told.snapshot().usage_history
    (here,) = old.snapshot().usage_history

    assert there.queue == here.queue
    assert abs(there.milli_seconds - here.milli_seconds) <= 1.0


def test_a_half_life_edited_without_a_leader_rescales_the_saved_borrowing() -> None:
    nodes, queues = [make_node("n1", gpus=1)], [make_queue("red", guaranteed=0)]
    old = ToyCluster(nodes, queues, [make_job("long", queue="red")])
    old.cycle()
    old.now += 10 * HOUR
    handover = written(old, Plan())
    edited = [make_queue("red", guaranteed=0, half_life_s=8_640)]

    (before,) = old.snapshot().usage_history
    (after,) = new_leader(nodes, edited, old, handover).snapshot().usage_history

    assert (before.half_life_s, after.half_life_s) == (86_400, 8_640)
    assert abs(after.milli_seconds - before.milli_seconds / 10) <= 1.0


def test_room_made_by_evictions_goes_to_its_job_after_a_change_of_leader() -> None:
    """Blue is ahead in the line but may evict nobody; red preempts inside its own queue, and the leader is gone."""
    nodes = [make_node("n1", gpus=5)]
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=0)]
    old = ToyCluster(nodes, queues, [make_job("low", queue="red", gpus=4), make_job("keeps", queue="red", priority=9)])
    old.cycle()
    old.observe(make_job("small", queue="blue", gpus=1, at=1.0))
    old.observe(make_job("high", queue="red", gpus=4, priority=5, at=2.0))
    plan = old.cycle()
    handover = written(old, plan)
    old.finish_evictions()

    told = new_leader(nodes, queues, old, handover)
    knows_nothing = new_leader(nodes, queues, old, None)

    assert who(plan.actions) == [("Evict", "red/low")]
    assert who(told.cycle().actions) == who(old.cycle().actions) == [("Admit", "red/high")]
    assert who(knows_nothing.cycle().actions) == [("Admit", "blue/small")]


def test_room_that_is_still_being_made_stays_reserved_until_the_victims_are_gone() -> None:
    nodes = [make_node("n1", gpus=4)]
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=0)]
    old = ToyCluster(nodes, queues, [make_job("low", queue="red", gpus=4)])
    old.cycle()
    old.observe(make_job("small", queue="blue", gpus=1, at=1.0))
    old.observe(make_job("high", queue="red", gpus=4, priority=5, at=2.0))
    told = new_leader(nodes, queues, old, written(old, old.cycle()))

    waits = told.cycle()
    told.finish_evictions()

    assert (waits.actions, waits.verdicts["red/high"].reason) == ((), Reason.WAITING_FOR_EVICTION)
    assert who(told.cycle().actions) == [("Admit", "red/high")]


@given(clusters(), st.integers(0, 3), st.integers(0, 7_200))
def test_a_new_leader_decides_as_the_old_one_would_have(
    world: tuple[list[Node], list[TenantQueue], list[Job]], cycles: int, pause: int
) -> None:
    """Same jobs start and leave, and the same wait for the same reason. On which of equal GPUs may differ: the promised
    place itself is not written down."""
    nodes, queues, jobs = world
    first, later = jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]
    old = ToyCluster(nodes, queues, first)
    plan = Plan()
    for _ in range(cycles):
        plan = old.cycle()
        old.finish_evictions()
    old.now += pause
    for job in later:
        old.observe(job)
    told = new_leader(nodes, queues, old, written(old, plan))

    mine, theirs = told.cycle(), old.cycle()

    assert who(mine.actions) == who(theirs.actions)
    assert {key: verdict.reason for key, verdict in mine.verdicts.items()} == {
        key: verdict.reason for key, verdict in theirs.verdicts.items()
    }


def test_shapes_of_finished_jobs_keep_their_decayed_weight() -> None:
    nodes, queues = [make_node("n1", gpus=2)], [make_queue("red")]
    gone = make_job("gone", gpus=2)
    old = ToyCluster(nodes, queues, [gone])
    old.snapshot()
    old.end(gone.key)
    old.now += 86_400
    told = new_leader(nodes, queues, old, written(old, Plan(), ((replace(gone), 0.0),)))

    assert told.snapshot().demand_history == old.snapshot().demand_history
    assert [weight for _, weight in old.snapshot().demand_history] == [0.5]


def test_a_new_leader_knows_the_run_times_of_finished_jobs() -> None:
    ended = tuple((make_job(f"train-{number}", ran_s=60 * number), float(number)) for number in range(1, 6))
    told = ClusterState()
    told.restore(FailoverState(ended=ended), 10.0)
    assert told.snapshot(10.0).runtimes.runs_like(make_job("train-9")) == (60, 120, 180, 240, 300)


def test_a_job_that_may_no_longer_have_its_nominated_place_takes_an_ordinary_turn() -> None:
    nodes, queues = [make_node("n1", gpus=1)], [make_queue("red", limit=1)]
    wide = make_job("wide", gpus=2)
    told = new_leader(
        nodes, queues, ToyCluster(nodes, queues, [wide]), FailoverState(nominated=("red/wide", "red/unknown"))
    )

    plan = told.cycle()

    assert (plan.actions, plan.verdicts["red/wide"].reason) == ((), Reason.EXCEEDS_LIMIT)
    assert not any(isinstance(action, Admit) for action in plan.actions)
