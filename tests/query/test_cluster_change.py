"""What a change of a quota, a node or a setting would do: said before it is made, and true when it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Admit, Evict
from cotenant.core.quota.bookings import BookingTerms
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.state.facts import BookingObserved, NodeObserved, QueueObserved
from cotenant.query.cluster_change import (
    ChangedCluster,
    jobs_on,
    what_if_cluster,
    with_copies,
    with_queue,
    without_node,
)
from cotenant.query.situation import Situation
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue

RED, BLUE = make_queue("red", guaranteed=2, limit=2), make_queue("blue", guaranteed=2)


def clock() -> Callable[[], bool]:
    return lambda: True


def decided(toy: ToyCluster) -> Situation:
    planned = replace(toy.snapshot(), now=toy.now + 1.0)
    return Situation(planned, toy.cycle(), toy.policy)


def cluster(*jobs: Job) -> ToyCluster:
    toy = ToyCluster([make_node("n1"), make_node("n2")], [RED, BLUE])
    for job in jobs:
        toy.observe(job)
        toy.cycle()
    return toy


def test_a_raised_limit_starts_the_four_jobs_it_held_back() -> None:
    situation = decided(cluster(make_job("runs", gpus=2), make_job("more", gpus=2, at=2.0)))
    changed = with_queue(situation.snapshot, make_queue("red", guaranteed=4, limit=4))
    found = what_if_cluster(situation, ChangedCluster(snapshot=changed, policy=situation.policy), clock)
    assert [(one.job, one.asks) for one in found.starts] == [("red/more", "2 GPUs")]
    assert (found.evicted, found.waiting) == ((), (1, 0))


def test_guarantees_above_the_gpus_are_named_with_what_they_would_count_for() -> None:
    situation = decided(cluster())
    changed = with_queue(situation.snapshot, make_queue("red", guaranteed=4, limit=4))
    found = what_if_cluster(situation, ChangedCluster(snapshot=changed, policy=situation.policy), clock)
    gpus = len([gpu for node in situation.snapshot.nodes for gpu in node.gpus])
    assert sum(one.effective for one in found.unbacked) <= gpus * 1000 < sum(one.guaranteed for one in found.unbacked)
    assert [one.queue for one in found.unbacked] == ["blue", "red"]


def test_a_guarantee_that_was_not_backed_before_is_named_only_if_it_counts_for_less() -> None:
    situation = decided(
        ToyCluster([make_node("n1")], [make_queue("red", guaranteed=9), make_queue("blue", guaranteed=9)])
    )
    smaller = with_queue(situation.snapshot, make_queue("blue", guaranteed=8))
    found = what_if_cluster(situation, ChangedCluster(snapshot=smaller, policy=situation.policy), clock)
    assert found.unbacked == ()


def test_borrowers_leave_for_a_raised_guarantee() -> None:
    situation = decided(
        cluster(make_job("a", gpus=2), make_job("b", queue="blue", gpus=2), make_job("c", gpus=2, at=3.0))
    )
    smaller = replace(situation.snapshot, queues=(RED, make_queue("blue", guaranteed=0)), accounting=None)
    changed = with_queue(smaller, make_queue("red", guaranteed=4, limit=4))
    found = what_if_cluster(situation, ChangedCluster(snapshot=changed, policy=situation.policy), clock)
    assert [one.job for one in found.promised] == ["red/c"]
    assert [(one.job, one.why) for one in found.evicted] == [("blue/b", "it runs on GPUs that its queue has borrowed")]


def test_draining_a_node_names_the_jobs_that_stop_and_those_that_move() -> None:
    situation = decided(cluster(make_job("one"), make_job("two", queue="blue", gpus=2)))
    (node,) = {part.node for part in situation.jobs["blue/two"].placement.nodes}  # type: ignore[union-attr]
    left = jobs_on(situation.snapshot, node)
    changed = without_node(situation.snapshot, node, left)
    found = what_if_cluster(situation, ChangedCluster(snapshot=changed, policy=situation.policy, left=left), clock)
    assert {one.job for one in found.evicted} == set(left)
    assert all(one.why.startswith("its node would be drained") for one in found.evicted)
    assert node not in "".join(one.why for one in found.evicted)


def test_added_nodes_start_jobs_that_wait_for_room() -> None:
    situation = decided(
        cluster(*(make_job(f"j{number}", queue="blue", gpus=2, at=float(number)) for number in range(4)))
    )
    like = situation.snapshot.nodes[0]
    one, two = (
        what_if_cluster(
            situation,
            ChangedCluster(snapshot=with_copies(situation.snapshot, like, count), policy=situation.policy),
            clock,
        )
        for count in (1, 2)
    )
    assert ([mention.job for mention in one.starts], len(two.starts)) == (["blue/j2"], 2)


def test_jobs_that_would_wait_less_or_longer_are_named_with_both_times() -> None:
    runs = make_job("runs", gpus=2, workers=2, queue="blue", expected_runtime_s=3_600)
    situation = decided(
        cluster(runs, make_job("waits", queue="blue", gpus=2, workers=2, at=2.0, expected_runtime_s=60))
    )
    jobs = tuple(
        replace(job, expected_runtime_s=600) if job.key == "blue/runs" else job for job in situation.snapshot.jobs
    )
    changed = replace(situation.snapshot, jobs=jobs, accounting=None)
    found = what_if_cluster(situation, ChangedCluster(snapshot=changed, policy=situation.policy), clock)
    (moved,) = found.sooner
    assert moved.job.job == "blue/waits"
    assert moved.before is not None
    assert moved.after is not None
    assert moved.before - moved.after > 1_000


def test_a_job_that_could_never_start_says_so_if_it_could_then() -> None:
    situation = decided(
        cluster(make_job("runs", queue="blue", gpus=2), make_job("gang", queue="blue", workers=5, at=2.0))
    )
    changed = with_copies(situation.snapshot, situation.snapshot.nodes[0], 1)
    found = what_if_cluster(situation, ChangedCluster(snapshot=changed, policy=situation.policy), clock)
    assert [(one.job.job, one.job.why) for one in found.sooner] == [("blue/gang", "waiting alone does not help it now")]


def test_names_of_others_are_not_shown() -> None:
    situation = decided(cluster(make_job("runs", gpus=2), make_job("more", gpus=2, at=2.0)))
    changed = with_queue(situation.snapshot, make_queue("red", guaranteed=4, limit=4))
    found = what_if_cluster(situation, ChangedCluster(snapshot=changed, policy=situation.policy), clock)
    assert [(one.job, one.asks) for one in found.as_seen(lambda _: False).starts] == [("", "2 GPUs")]


def booked(gpus: int, starts_at: float) -> BookingTerms:
    return BookingTerms(name="demo", queue="red", gpu_class="H100", gpus=gpus, starts_at=starts_at, ends_at=1e6)


def test_what_is_booked_for_a_queue_counts_beside_another_quota_of_it() -> None:
    toy = ToyCluster([make_node("n1"), make_node("n2")], [make_queue("red", limit=0)])
    toy.state.observe(BookingObserved(booked(2, 0.0)))
    for job in (make_job("train", gpus=2), make_job("more", gpus=2, at=2.0)):
        toy.observe(job)
        toy.cycle()
    situation = decided(toy)
    changed = with_queue(situation.snapshot, make_queue("red", limit=2))
    found = what_if_cluster(situation, ChangedCluster(snapshot=changed, policy=situation.policy), clock)
    assert [one.job for one in found.starts] == ["red/more"]


def test_a_node_that_leaves_takes_its_gpus_out_of_what_can_be_booked() -> None:
    toy = ToyCluster([make_node("n1"), make_node("n2")], [make_queue("red", limit=0)])
    toy.state.observe(BookingObserved(booked(4, 0.0)))
    (standing,) = without_node(decided(toy).snapshot, "n1", ()).bookings
    assert (standing.gpus, standing.why.partition(":")[0]) == (2, "2 of 4 GPUs of class H100 can be booked")


jobs = st.builds(
    lambda number, queue, gpus, workers, at, priority: make_job(
        f"j{number}", queue=queue, gpus=gpus, workers=workers, at=float(at), priority=priority
    ),
    st.integers(0, 9),
    st.sampled_from(["red", "blue"]),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(0, 20),
    st.integers(0, 2),
)


@settings(max_examples=60, deadline=None)
@given(
    before=st.lists(jobs, max_size=7),
    name=st.sampled_from(["red", "blue"]),
    guaranteed=st.integers(0, 6),
    copies=st.integers(0, 2),
    cycles=st.integers(0, 2),
    booking=st.none() | st.builds(booked, st.integers(1, 4), st.sampled_from([0.0, 60.0])),
)
def test_the_answer_about_quotas_and_nodes_equals_what_the_next_cycle_does(
    *, before: list[Job], name: str, guaranteed: int, copies: int, cycles: int, booking: BookingTerms | None
) -> None:
    """They are equal if nothing else happens: the same core decides on the state with the change."""
    toy = ToyCluster([make_node("n1"), make_node("n2")], [RED, BLUE], {job.key: job for job in before}.values())
    if booking is not None:
        toy.state.observe(BookingObserved(booking))
    for _ in range(cycles):
        toy.cycle()
    situation = decided(toy)
    queue = make_queue(name, guaranteed=guaranteed)
    changed = with_copies(with_queue(situation.snapshot, queue), situation.snapshot.nodes[0], copies)
    said = what_if_cluster(situation, ChangedCluster(snapshot=changed, policy=situation.policy), lambda: lambda: False)
    without = schedule(situation.snapshot, situation.policy)
    toy.state.observe(QueueObserved(queue))
    for node in changed.nodes[len(situation.snapshot.nodes) :]:
        toy.state.observe(NodeObserved(node))
    plan = schedule(toy.state.bare_snapshot(toy.now), toy.policy)

    def started(one: object) -> set[str]:
        return {action.job for action in one.actions if isinstance(action, Admit)}  # type: ignore[attr-defined]

    def evicted(one: object) -> set[str]:
        return {action.job for action in one.actions if isinstance(action, Evict)}  # type: ignore[attr-defined]

    assert {one.job for one in said.starts} == started(plan) - started(without)
    assert {one.job for one in said.evicted} == evicted(plan) - evicted(without)
    assert {one.job for one in said.promised} == set(plan.nominations) - set(without.nominations)
