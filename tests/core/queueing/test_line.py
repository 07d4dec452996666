"""The line of waiting jobs: which are in it, which a flood keeps out, and what jobs outside cost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import Job, PendingBounds
from cotenant.core.model.plan import Reason
from cotenant.core.queueing.line import Line, form_lines, outside_lines
from cotenant.core.queueing.order import order_in_queue
from cotenant.core.quota.tree import QueueTree
from cotenant.core.scheduling.scheduler import schedule
from tests.support.call_count import calls
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue, make_snapshot

RED = make_queue("red", guaranteed=4)


def job(name: str, user: str = "ann", *, workers: int = 1, at: float = 0.0, priority: int = 0) -> Job:
    return make_job(name, user=user, workers=workers, at=at, priority=priority)


def outside(jobs: list[Job], bounds: PendingBounds, never: frozenset[str] = frozenset()) -> list[str]:
    """Names of jobs outside the line. Jobs in `never` can never start; the others ask for one GPU per worker."""

    def cost(one: Job) -> int | None:
        return None if one.key in never else one.workers_min * 1_000

    return [one.key.removeprefix("red/") for one in Line(bounds, jobs, cost).outside]


SIX = [job(f"a{number}", at=number) for number in range(4)] + [job("b0", "bob", at=9), job("b1", "bob", at=10)]


@pytest.mark.parametrize(
    ("jobs", "bounds", "want"),
    [
        pytest.param(SIX, PendingBounds(jobs=6, workers=6), [], id="all in line"),
        pytest.param(SIX, PendingBounds(jobs=3, workers=6), ["b1", "a2", "a3"], id="users in turn"),
        pytest.param(
            [*SIX, job("high", priority=1, at=11)],
            PendingBounds(jobs=3, workers=9),
            ["b1", "a1", "a2", "a3"],
            id="of one user, by priority and age",
        ),
        pytest.param(SIX, PendingBounds(jobs=6, workers=4), ["a2", "a3"], id="workers"),
        pytest.param(SIX, PendingBounds(jobs=6, workers=9, milli=4_000), ["a2", "a3"], id="GPUs"),
        pytest.param(
            [job("large", workers=50), job("small", at=1)], PendingBounds(jobs=9, workers=10), ["small"],
            id="the first however large, and none behind it that finds no room",
        ),
        pytest.param(
            [job("first"), job("large", workers=50, at=1), job("small", at=2), job("other", "bob", at=3)],
            PendingBounds(jobs=9, workers=10),
            ["large", "small"],
            id="nobody overtakes his own large job; others do",
        ),
    ],
)  # fmt: skip
def test_jobs_beyond_the_bounds_of_their_queue_take_no_part(
    jobs: list[Job], bounds: PendingBounds, want: list[str]
) -> None:
    assert outside(jobs, bounds) == want


def test_jobs_that_can_never_start_take_no_place_in_line_but_only_a_bounded_number_is_checked() -> None:
    wrong = [job(f"w{number:03}") for number in range(110)]
    never = frozenset(one.key for one in wrong)
    right = [job(f"z{number}", at=1) for number in range(4)]

    assert outside([*wrong[:100], *right], PendingBounds(jobs=3, workers=99), never) == ["z3"]
    beyond = [f"w{number}" for number in range(103, 110)]
    assert outside([*wrong, *right], PendingBounds(jobs=3, workers=99), never) == [*beyond, "z0", "z1", "z2", "z3"]


LARGE = [job("first"), job("large", workers=50, at=1), job("small", at=2), job("other", "bob", at=3)]


@pytest.mark.parametrize(
    ("jobs", "bounds", "changed", "takes"),
    [
        pytest.param(SIX, PendingBounds(jobs=3, workers=3), job("a1", at=1), True, id="as it is"),
        pytest.param(SIX, PendingBounds(jobs=3, workers=3), job("a1", workers=2, at=1), False, id="not with more"),
        pytest.param(SIX, PendingBounds(jobs=3, workers=9), job("a2", at=2), False, id="not from outside"),
        pytest.param(SIX, PendingBounds(jobs=3, workers=9), job("a2", at=2, priority=1), True, id="unless ahead"),
        pytest.param(SIX, PendingBounds(jobs=3, workers=9), job("new", "cid", at=3), True, id="one that did not wait"),
        pytest.param(SIX, PendingBounds(jobs=3, workers=9), job("a1", at=20), False, id="not at the back"),
        pytest.param(SIX, PendingBounds(jobs=3, workers=9), job("b0", "ann", at=9), False, id="not as another user's"),
        pytest.param(LARGE, PendingBounds(jobs=9, workers=10), job("small", at=2), False, id="not behind a large"),
        pytest.param(LARGE, PendingBounds(jobs=9, workers=10), job("large", workers=8, at=1), True, id="made smaller"),
        pytest.param(LARGE, PendingBounds(jobs=9, workers=10), job("large", workers=9, at=1), False, id="too little"),
    ],
)  # fmt: skip
def test_whether_a_changed_job_would_be_in_line(
    jobs: list[Job], bounds: PendingBounds, changed: Job, takes: bool
) -> None:
    line = Line(bounds, jobs, lambda one: one.workers_min * 1_000)
    assert line.takes(changed) is takes


def test_lines_are_formed_only_for_queues_that_set_bounds() -> None:
    queues = [replace(RED, pending=PendingBounds(jobs=1, workers=9)), make_queue("blue", guaranteed=1)]
    tree = QueueTree.of(queues, Inventory.of([make_node("n1")]))
    waiting = [job("first"), job("second", at=1), make_job("free", queue="blue"), make_job("lost", queue="gone")]

    lines = form_lines(tree, waiting, lambda one: 1_000)

    assert {name: [one.key for one in line.outside] for name, line in lines.items()} == {"red": ["red/second"]}
    assert {key: refusal.reason for key, refusal in outside_lines(lines).items()} == {
        "red/second": Reason.TOO_MANY_PENDING
    }


JOBS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(0, 3), st.booleans()), max_size=30
).map(
    lambda rows: [
        (job(f"j{number:02}", user, workers=workers, priority=priority, at=number), starts)
        for number, (user, workers, priority, starts) in enumerate(rows)
    ]
)


def in_turn(jobs: list[Job]) -> list[Job]:
    """Every user's first job by priority and age, then every user's second, and so on."""
    ordered = sorted(jobs, key=order_in_queue)
    numbers = {one.key: [other.key for other in ordered if other.user == one.user].index(one.key) for one in jobs}
    return sorted(ordered, key=lambda one: numbers[one.key])


@given(JOBS, st.integers(1, 9), st.integers(1, 40), st.none() | st.integers(0, 20_000))
def test_a_line_keeps_its_bounds_and_each_user_waits_behind_his_own_jobs(
    jobs: list[tuple[Job, bool]], places: int, workers: int, milli: int | None
) -> None:
    never = frozenset(one.key for one, starts in jobs if not starts)
    waiting = [one for one, _ in jobs]
    out = set(outside(waiting, PendingBounds(jobs=places, workers=workers, milli=milli), never))
    line = [one for one in in_turn(waiting) if one.key.removeprefix("red/") not in out and one.key not in never]

    assert len(line) <= places
    assert sum(one.workers_min for one in line[1:]) <= max(0, workers - line[0].workers_min) if line else True
    for user in "abc":
        own = [one.key.removeprefix("red/") in out for one in in_turn(waiting) if one.user == user]
        assert own == sorted(own)
    assert line or never or not waiting


BOUNDS = st.builds(
    PendingBounds, jobs=st.integers(1, 9), workers=st.integers(1, 40), milli=st.none() | st.integers(0, 20_000)
)


@given(JOBS.filter(bool), BOUNDS, st.integers(0, 29), st.tuples(st.integers(0, 4), st.integers(1, 40), st.booleans()))
def test_a_changed_job_is_in_line_exactly_if_a_line_formed_with_it_would_include_it(
    jobs: list[tuple[Job, bool]], bounds: PendingBounds, which: int, change: tuple[int, int, bool]
) -> None:
    waiting = [one for one, _ in jobs]
    can_start = {one.key: can for one, can in jobs}
    priority, workers, starts = change
    changed = replace(waiting[which % len(waiting)], priority=priority, workers_min=workers)

    def cost(one: Job) -> int | None:
        return one.workers_min * 1_000 if (starts if one is changed else can_start[one.key]) else None

    line = Line(bounds, waiting, cost)
    assume(changed.key not in {one.key for one in line.outside})
    others = [one for one in waiting if one.key != changed.key]
    assert line.takes(changed) is (changed not in Line(bounds, [*others, changed], cost).outside)


def test_checking_a_changed_job_costs_the_same_in_a_long_line_as_in_a_short_one() -> None:
    def cost(number: int) -> int:
        jobs = [job(f"j{one:05}", f"user-{one % 50}", at=one) for one in range(number)]
        line = Line(PendingBounds(jobs=number - 1, workers=9 * number), jobs, lambda one: 1_000)
        assert len(line.outside) == 1
        changed = [replace(one, workers_min=2, priority=int(one.submitted_at) % 3) for one in jobs[:100]]
        return calls(lambda: [line.takes(one) for one in changed])

    assert cost(5_000) <= 1.5 * cost(500)


def test_one_users_flood_of_jobs_keeps_nobody_else_out() -> None:
    flood = [job(f"f{number:04}", "eve", at=number) for number in range(400)]
    queue = replace(RED, pending=PendingBounds(jobs=10, workers=100))
    jobs = [*flood, job("hers", "ann", at=999)]
    verdicts = schedule(make_snapshot(nodes=[make_node("n1", gpus=4)], queues=[queue], jobs=jobs)).verdicts

    outside = {key for key, verdict in verdicts.items() if verdict.reason is Reason.TOO_MANY_PENDING}
    assert len(outside) == 391
    assert "red/hers" not in outside


def test_every_job_comes_into_line_in_the_end() -> None:
    queue = replace(RED, pending=PendingBounds(jobs=3, workers=5))
    toy = ToyCluster([make_node("n1", gpus=4)], [queue], [job(f"j{n}", workers=1 + n % 4, at=n) for n in range(20)])
    for _ in range(40):
        for action in toy.cycle().actions:
            toy.end(action.job)

    assert toy.jobs == {}


def test_the_message_for_a_job_outside_the_line_has_the_bounds_and_no_changing_figures() -> None:
    queue = replace(RED, pending=PendingBounds(jobs=1, workers=9, milli=4_000))
    jobs = [job("a", at=0), job("b", at=1), job("c", at=2)]
    plan = schedule(make_snapshot(nodes=[make_node("n1", gpus=4)], queues=[queue], jobs=jobs))

    assert {(plan.verdicts[key].reason, plan.verdicts[key].message) for key in ("red/b", "red/c")} == {
        (
            Reason.TOO_MANY_PENDING,
            "Queue red considers 1 waiting job of at most 9 workers together and 4 GPU at a time (maxPending), its"
            " users in turn; this job is considered when others of the queue have started or are deleted.",
        )
    }


def test_a_job_outside_the_line_costs_a_twentieth_of_one_inside() -> None:
    """All of them differ, and none can start now."""

    def cost(number: int) -> int:
        queue = replace(make_queue("red", guaranteed=4), pending=PendingBounds(jobs=100, workers=10_000))
        toy = ToyCluster([make_node("n1", gpus=4)], [queue], [make_job("busy", gpus=4, at=-1.0)])
        toy.settle()
        for n in range(number):
            toy.observe(make_job(f"j{n:04}", workers=4, cpu_milli=n + 1))
        snapshot = toy.snapshot()
        return calls(lambda: schedule(snapshot))

    none, inside, some, many = (cost(number) for number in (0, 100, 1_200, 2_200))

    assert (many - some) / 1_000 <= (inside - none) / 100 / 20
