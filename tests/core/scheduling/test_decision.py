"""A reused decision equals the one that would be made: in random stories, moment by moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.model.objects import Job, TimeOrder
from cotenant.core.placement.shapes import Shape
from cotenant.core.policy import Policy
from cotenant.core.queueing.fair_share import DominantShares
from cotenant.core.quota.usage import Usage
from cotenant.core.runtimes.learned import LearnedRuntimes
from cotenant.core.scheduling.decision import Decision, Standings
from cotenant.core.scheduling.scheduler import decide, schedule
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.snapshot.snapshot import DecayedBorrowing, Snapshot
from cotenant.core.state.facts import NodeObserved, QueueObserved
from tests.core.worlds.stories import Draw, draw_job, draw_node, draw_queues, happenings
from tests.support.clusters import UNPROTECTED, ToyCluster, make_job, make_node, make_placement, make_queue

STEPS_S = (0.0, 0.4, 1.0, 7.0, 45.0, 61.0, 250.0, 900.0)


class Story:
    """Random cycles, in most of which only time passes. Each is decided twice."""

    def __init__(self, seed: int, patience_s: Sequence[int] = (21_600,)) -> None:
        self.draw = draw = Draw(seed)
        self.nodes = [draw_node(draw, index) for index in range(draw.number(2, 6))]
        self.queues = draw_queues(draw)
        policy = Policy(
            protected_runtime_s=draw.one((0, 300)),
            reserve_within_s=draw.one((3_600, 3_600, 0)),
            moves=draw.one((4, 0)),
            forecasts=draw.one((16, 2)),
            collect_after_s=draw.one(patience_s),
            tenure_s=draw.one((0, 0, 2_000)),
        )
        self.toy = ToyCluster(self.nodes, self.queues, policy=policy)
        self.last: Decision | None = None
        self.kept = self.waited = self.collected = 0
        self.made = 0

    def cycle(self) -> None:
        draw, toy = self.draw, self.toy
        if draw.chance(20):
            self._something_happens()
        toy.now += draw.one(STEPS_S)
        snapshot = toy.snapshot()
        decision = decide(snapshot, toy.policy, self.last)
        assert decision.plan == schedule(snapshot, toy.policy)
        assert decide(snapshot, toy.policy, self.last).plan == decision.plan, "the last decision is spent"
        self.kept += decision is self.last
        self.waited += decision is self.last and bool(decision.plan.verdicts)
        self.collected += any("reserved for it" in verdict.message for verdict in decision.plan.verdicts.values())
        self.last = decision
        self._holds_until_it_does_not(decision, snapshot)
        if decision.plan.actions:
            toy.cycle()

    def _holds_until_it_does_not(self, decision: Decision, snapshot: Snapshot) -> None:
        """Decide again just before the first instant that may change an answer, with everything else equal."""
        later = replace(snapshot, now=min(decision.until, snapshot.now + 1e6) - 0.01)
        if decision.holds_for(later, self.toy.policy):
            assert decision.at(later.now).plan == schedule(later, self.toy.policy)

    def _something_happens(self) -> None:
        draw, toy = self.draw, self.toy
        for _ in range(draw.number(0, 4)):
            toy.observe(draw_job(draw, self.made, self.queues, toy.now))
            self.made += 1
        list(happenings(draw, toy, self.nodes))
        if draw.chance(50):
            toy.finish_evictions()


@pytest.mark.parametrize("first", [0, 6])
def test_a_reused_decision_equals_a_new_one(first: int) -> None:
    kept = waited = 0
    for seed in range(first, first + 6):
        story = Story(seed)
        for _ in range(25):
            story.cycle()
        kept, waited = kept + story.kept, waited + story.waited
    assert kept > 25, "the test would show nothing"
    assert waited > 15


@pytest.mark.parametrize("first", [0, 5, 10])
def test_a_future_played_with_known_run_times_comes_true_while_many_jobs_are_overdue(first: int) -> None:
    kept = collected = 0
    for seed in range(first, first + 5):
        story = Story(seed, (600,))
        for _ in range(25):
            story.cycle()
        kept, collected = kept + story.kept, collected + story.collected
    assert kept > 25, "the test would show nothing"
    assert collected > 2


class World:
    """Two of eight GPUs are busy until 1,600 s, and one job waits for them. The decision can be reused."""

    def __init__(self) -> None:
        busy = make_job("busy", gpus=6, placement=make_placement(("n1", [list(range(6))])), expected_runtime_s=1_600)
        self.queues = [make_queue("red", guaranteed=8), replace(make_queue("blue"), budget_left=1_000)]
        self.node = make_node("n1", gpus=8)
        self.toy = ToyCluster(
            [self.node], self.queues, [replace(busy, admitted_at=0.0), make_job("waits", gpus=8, at=1.0)], Policy()
        )
        self.toy.now = 1_000.0

    def decide(self, last: Decision | None = None) -> Decision:
        return decide(self.toy.snapshot(), self.toy.policy, last)


def _nothing(world: World) -> None:
    """Only time passes."""
    world.toy.now += 500.0


def _saved(world: World) -> None:
    world.toy.observe(replace(world.toy.jobs["red/busy"], last_checkpoint_at=900.0))


def _job(world: World) -> None:
    world.toy.observe(make_job("more", gpus=8, at=2.0))


def _job_gone(world: World) -> None:
    world.toy.end("red/waits")


def _node(world: World) -> None:
    world.toy.state.observe(NodeObserved(replace(world.node, cpu_milli=world.node.cpu_milli - 1)))


def _queue(world: World) -> None:
    world.toy.state.observe(QueueObserved(replace(world.queues[0], order=TimeOrder.LEAST_SERVICE)))


def _budget_used(world: World) -> None:
    world.toy.state.observe(QueueObserved(replace(world.queues[1], budget_left=900)))


def _budget_spent(world: World) -> None:
    world.toy.state.observe(QueueObserved(replace(world.queues[1], budget_left=0)))


def _ending(world: World) -> None:
    """Let time pass to the declared end of the running job."""
    world.toy.now = 1_600.0


def _clock_back(world: World) -> None:
    world.toy.now -= 1.0


def _policy(world: World) -> None:
    world.toy.policy = UNPROTECTED


@pytest.mark.parametrize(
    ("happens", "kept"),
    [
        (_nothing, True),
        (_saved, True),
        (_job, False),
        (_job_gone, False),
        (_node, False),
        (_queue, False),
        (_budget_used, True),
        (_budget_spent, False),
        (_ending, False),
        (_clock_back, False),
        (_policy, False),
    ],
)
def test_a_decision_is_reused_while_its_inputs_are_unchanged(happens: Callable[[World], None], kept: bool) -> None:
    world = World()
    last = world.decide()
    happens(world)
    assert (world.decide(last) is last) is kept


def test_a_decision_with_actions_is_not_reused() -> None:
    toy = ToyCluster([make_node("n1", gpus=1)], [make_queue("red", guaranteed=1)], [make_job("starts")])
    snapshot = toy.snapshot()
    last = decide(snapshot, toy.policy)
    assert last.plan.actions
    assert decide(snapshot, toy.policy, last) is not last


def test_a_decision_is_made_anew_when_past_borrowing_changes_the_rank_of_queues() -> None:
    """Both wait for the same GPU, and red has borrowed lately; a long time later it has not."""
    queues = [make_queue(name, guaranteed=0) for name in ("blue", "red")]
    kept_busy = make_job("busy", queue="green", placement=make_placement(("n1", [[0]])))
    jobs = [kept_busy, make_job("r", queue="red", at=1.0), make_job("b", queue="blue", at=2.0)]
    toy = ToyCluster([make_node("n1", gpus=1)], [*queues, make_queue("green", guaranteed=1)], jobs)
    snapshot = toy.snapshot()

    def borrowed(milli_seconds: float) -> Snapshot:
        past = DecayedBorrowing(queue="red", milli_seconds=milli_seconds, half_life_s=600.0)
        return replace(snapshot, usage_history=(past,))

    last = decide(borrowed(1e6), toy.policy)
    assert last.holds_for(borrowed(0.9e6), toy.policy)
    assert not last.holds_for(borrowed(0.0), toy.policy)


def test_results_about_unchanged_running_jobs_and_requests_are_reused() -> None:
    world = World()
    first = world.decide()
    _node(world)
    second = world.decide(first)
    assert second is not first
    assert second.known.running is first.known.running
    _saved(world)
    assert world.decide(second).known.running is second.known.running  # it holds
    _job(world)
    third = world.decide(second)
    assert third.known.running is not second.known.running
    assert third.known.running.by_key["red/busy"].last_checkpoint_at == 900.0


def test_jobs_that_differ_only_in_age_share_a_request_across_cycles() -> None:
    """The shared request belongs to one of them."""
    world = World()
    first = world.decide()
    world.toy.end("red/waits")
    world.toy.observe(make_job("waits-too", gpus=8, at=3.0))
    second = world.decide(first)
    assert list(second.plan.verdicts) == ["red/waits-too"]
    assert second.plan == schedule(world.toy.snapshot(), world.toy.policy)


TIMES_S = st.one_of(st.none(), st.integers(1, 9_000))
CLASSES = ("A100", "H100", "L4")


class Behind:
    """A node of each class, on which half of the GPUs are free and kept for a gang that waits for the other half: until
    what runs there ends or, where the gang is overdue, until it is likely to have. Small jobs wait behind them."""

    def __init__(self, ends_s: Sequence[int], small: Sequence[Job], *, overdue: bool) -> None:
        classes = CLASSES[: len(ends_s)]
        nodes = [make_node(f"n-{name}", gpus=4, gpu_class=name) for name in classes]
        jobs = list(small)
        for name, end in zip(classes, ends_s, strict=True):
            place = make_placement((f"n-{name}", [[0, 1]]))
            busy = make_job(f"busy-{name}", gpus=2, placement=place, expected_runtime_s=end, max_runtime_s=end)
            jobs.append(replace(busy, admitted_at=0.0))
            jobs.append(make_job(f"gang-{name}", gpus=4, at=1.0, classes=(name,)))
        self.policy = Policy(collect_after_s=600 if overdue else 0)
        self.toy = ToyCluster(nodes, [make_queue("red", guaranteed=12)], jobs, self.policy)
        self.toy.now = 1_000.0

    def decide(self, last: Decision | None = None) -> Decision:
        return decide(self.toy.snapshot(), self.policy, last)


SMALL = st.builds(
    lambda index, classes, runs, most: make_job(
        f"small-{index}", at=950.0 + index, classes=tuple(sorted(classes)), expected_runtime_s=runs, max_runtime_s=most
    ),
    st.integers(0, 2),
    st.sets(st.sampled_from(CLASSES), min_size=1),
    TIMES_S,
    TIMES_S,
)


@given(
    st.lists(st.integers(1_001, 9_000), min_size=1, max_size=3),
    st.lists(SMALL, min_size=1, max_size=3, unique_by=lambda job: job.key),
    st.booleans(),
    st.lists(st.floats(0.0, 900.0), min_size=1, max_size=6),
)
def test_advice_to_end_in_time_is_reworded_as_a_new_decision_would_word_it(
    ends_s: Sequence[int], small: Sequence[Job], overdue: bool, later_s: Sequence[float]
) -> None:
    world = Behind(ends_s, small, overdue=overdue)
    decision = world.decide()
    for later in later_s:
        world.toy.now += later
        decision = world.decide(decision)
        assert decision.plan == schedule(world.toy.snapshot(), world.policy)


@pytest.mark.parametrize("overdue", [False, True])
def test_a_decision_is_reused_although_the_remaining_time_is_worded_anew(overdue: bool) -> None:
    world = Behind([4_500, 4_200, 3_000], [make_job("small", at=950.0)], overdue=overdue)
    decision = first = world.decide()
    words = set()
    for now in range(1_000, 1_540, 60):
        world.toy.now = float(now)
        decision = world.decide(decision)
        words.add(decision.plan.verdicts["red/small"].would_start_if)
    assert decision.snapshot is first.snapshot
    assert len(words) > 2


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"accounting": None}, False),
        ({"watched_since": 5.0}, False),
        ({"runtimes": LearnedRuntimes()}, False),
        ({"nominations": (("red/waits", make_placement(("n1", [[7]]))),)}, False),
        ({"nominated_earlier": ("red/waits",)}, False),
        ({"evicted": ("red/busy",)}, False),
        ({"demand_history": ((Shape(), 1.0),)}, False),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, dict) else "",
)
def test_a_decision_holds_while_the_snapshot_is_equal(changes: dict[str, Any], holds: bool) -> None:
    world = World()
    snapshot = world.toy.snapshot()
    assert world.decide().holds_for(replace(snapshot, **changes), world.toy.policy) is holds


def test_a_decision_about_a_snapshot_without_accounting_is_not_reused() -> None:
    world = World()
    snapshot = world.toy.snapshot()
    bare = decide(replace(snapshot, accounting=None), world.toy.policy)
    assert not bare.holds_for(snapshot, world.toy.policy)


@pytest.mark.parametrize(
    ("waiting", "rivals"),
    [
        ((), ()),
        (("a",), ()),
        (("a", "b"), (("a", "b"),)),
        (("a", "other"), (("other", "top"),)),
        (("a", "top"), (("a", "top"),)),
        (("top", "other"), (("other", "top"),)),
        (("a", "b", "other"), (("other", "top"), ("a", "b"))),
    ],
    ids=["nobody", "one", "siblings", "below a root and another root", "a queue and one below it", "roots", "all"],
)
def test_a_queue_competes_for_turns_with_its_siblings(
    waiting: tuple[str, ...], rivals: tuple[tuple[str, ...], ...]
) -> None:
    queues = [make_queue("top", guaranteed=1), make_queue("other", guaranteed=1)]
    queues += [make_queue(name, guaranteed=1, parent="top") for name in ("a", "b")]
    tree = Accounting.of([make_node("n1")], queues, []).tree

    standings = Standings.of(DominantShares(tree, {}), Usage(tree), [make_job("j", queue=name) for name in waiting])

    assert {frozenset(tree.queues[queue].name for queue in group) for group in standings.rivals} == {
        frozenset(group) for group in rivals
    }


def test_queues_with_equal_shares_have_equal_ranks() -> None:
    queues = [make_queue(name, guaranteed=0) for name in ("a", "b", "c")]
    tree = Accounting.of([make_node("n1")], queues, []).tree
    jobs = [make_job("j", queue=queue.name) for queue in queues]

    found = [
        Standings.of(DominantShares(tree, past), Usage(tree), jobs).ranks for past in ({}, {"b": 5}, {"a": 7, "b": 5})
    ]

    assert found == [((0, 0, 0),), ((0, 1, 0),), ((2, 1, 0),)]
