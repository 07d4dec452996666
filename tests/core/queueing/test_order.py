"""Order of turns: guarantee → share → priority → age → key, level by level, with the usage after every decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.queueing.fair_share import DominantShares
from cotenant.core.queueing.order import QueueOrder, order_in_queue
from cotenant.core.queueing.service import Turn
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Charge, Usage
from tests.support.clusters import make_job, make_node, make_queue

INVENTORY = Inventory.of([make_node("n1", gpus=8)])
RED, BLUE = make_queue("red", guaranteed=0), make_queue("blue", guaranteed=0)


def by_age(job: Job) -> Turn:
    return -job.priority, 0, 0, job.submitted_at, job.key


def turns(
    queues: list[TenantQueue],
    jobs: list[Job],
    *,
    past: dict[str, int] | None = None,
    guaranteed: frozenset[str] = frozenset(),
    takes: Callable[[Job], int] = lambda job: 0,
) -> list[str]:
    """Names of jobs in the order of their turns. `guaranteed`: queues inside their guarantee; `takes`: milli-GPU that
    each job is given in its turn."""
    tree = QueueTree.of(queues, INVENTORY)
    usage = Usage(tree)
    shares = DominantShares(tree, past or {})
    found = []
    for job in QueueOrder(
        tree, usage, shares, lambda queue, _: tree.queues[queue].name in guaranteed, jobs, turn=by_age
    ):
        found.append(job.key.partition("/")[2])
        usage.add(Charge(tree.index[job.queue], "", ((("H100", ""), Amounts(takes(job))),)))
    return found


def job(name: str, queue: str = "red", *, at: float = 0.0, priority: int = 0) -> Job:
    return replace(make_job(name, queue=queue, at=at, priority=priority), key=f"ns/{name}")


@pytest.mark.parametrize(
    ("jobs", "want"),
    [
        pytest.param([], [], id="no jobs take no turn"),
        pytest.param([job("b"), job("a", at=1.0)], ["b", "a"], id="the older one first"),
        pytest.param([job("a"), job("b", priority=1, at=1.0)], ["b", "a"], id="priority before age"),
        pytest.param([job("b"), job("a")], ["a", "b"], id="the key where all else is equal"),
        pytest.param(
            [job("c", at=1.0), job("d"), job("b", at=1.0), job("a", priority=-1)],
            ["d", "b", "c", "a"],
            id="all of them",
        ),
    ],
)
def test_inside_a_queue_turns_follow_priority_then_age_then_key(jobs: list[Job], want: list[str]) -> None:
    assert turns([RED], jobs) == want
    assert [one.key for one in sorted(jobs, key=order_in_queue)] == [f"ns/{name}" for name in want]


FIRST, SECOND = job("first", "red", at=0.0), job("second", "blue", at=1.0)


@pytest.mark.parametrize(
    ("jobs", "past", "guaranteed", "want"),
    [
        pytest.param([FIRST, SECOND], {}, (), ["first", "second"], id="age, where nothing goes before it"),
        pytest.param(
            [FIRST, replace(SECOND, priority=1)],
            {},
            (),
            ["second", "first"],
            id="priority before age, between queues too",
        ),
        pytest.param(
            [replace(FIRST, priority=1), SECOND], {"red": 1}, (), ["second", "first"], id="share before priority"
        ),
        pytest.param([FIRST, SECOND], {"blue": 9}, ("blue",), ["second", "first"], id="guarantee before share"),
        pytest.param([FIRST, SECOND], {"red": 9}, ("red",), ["first", "second"], id="and the other way round"),
        pytest.param([FIRST, SECOND], {"red": 9}, ("red", "blue"), ["second", "first"], id="share among guaranteed"),
        pytest.param([FIRST, replace(SECOND, submitted_at=0.0)], {}, (), ["first", "second"], id="the key at last"),
    ],
)
def test_between_queues_turns_follow_guarantee_then_share_then_priority_then_age(
    jobs: list[Job], past: dict[str, int], guaranteed: tuple[str, ...], want: list[str]
) -> None:
    for given in (jobs, jobs[::-1]):
        assert turns([RED, BLUE], given, past=past, guaranteed=frozenset(guaranteed)) == want


def test_what_a_turn_gives_counts_in_the_next_turn() -> None:
    """Each job is given a GPU: the queues take turns; where nothing is given, age decides."""
    jobs = [job(f"r{number}", "red", at=number) for number in range(3)]
    jobs += [job(f"b{number}", "blue", at=10 + number) for number in range(3)]

    assert turns([RED, BLUE], jobs, takes=lambda _: 1_000) == ["r0", "b0", "r1", "b1", "r2", "b2"]
    assert turns([RED, BLUE], jobs) == ["r0", "r1", "r2", "b0", "b1", "b2"]
    assert turns([replace(RED, weight=2), BLUE], jobs, takes=lambda _: 1_000) == ["r0", "b0", "r1", "r2", "b1", "b2"]


TREE = [
    make_queue("dept-a", guaranteed=0),
    make_queue("dept-b", guaranteed=0),
    *(make_queue(name, guaranteed=0, parent="dept-a") for name in ("a1", "a2")),
    make_queue("b1", guaranteed=0, parent="dept-b"),
]


@pytest.mark.parametrize(
    ("past", "guaranteed", "want"),
    [
        pytest.param({}, (), ["x", "y", "z"], id="age decides at every level"),
        pytest.param({"dept-a": 5}, (), ["z", "x", "y"], id="departments are compared before their teams"),
        pytest.param({"a1": 5}, (), ["y", "x", "z"], id="a team's share counts among its siblings alone"),
        pytest.param({}, ("a2",), ["y", "x", "z"], id="a team's guarantee counts among its siblings alone"),
        pytest.param({}, ("dept-b",), ["z", "x", "y"], id="a department's guarantee counts among departments"),
    ],
)
def test_turns_are_given_level_by_level_down_the_tree(
    past: dict[str, int], guaranteed: tuple[str, ...], want: list[str]
) -> None:
    jobs = [job("x", "a1", at=0.0), job("y", "a2", at=1.0), job("z", "b1", at=2.0)]

    assert turns(TREE, jobs, past=past, guaranteed=frozenset(guaranteed)) == want


def test_jobs_of_an_inner_queue_compete_with_those_of_its_children() -> None:
    """Its own jobs stand at the level of its children, with the share of the whole subtree."""
    jobs = [job("own", "dept-a", at=1.0), job("old", "a1", at=0.0), job("new", "a2", at=2.0)]

    assert turns(TREE, jobs) == ["old", "own", "new"]
    assert turns(TREE, jobs, past={"a1": 5}) == ["own", "new", "old"]
    assert turns(TREE, jobs, past={"dept-a": 5}) == ["old", "new", "own"]


def test_after_a_turn_every_queue_above_is_compared_again() -> None:
    """Three levels: what `deep` takes counts for `mid`, which comes after its sibling then."""
    tree = [
        make_queue("root", guaranteed=0),
        make_queue("mid", guaranteed=0, parent="root"),
        make_queue("side", guaranteed=0, parent="root"),
        make_queue("deep", guaranteed=0, parent="mid"),
        make_queue("low", guaranteed=0, parent="side"),
    ]
    jobs = [job("d1", "deep", at=0.0), job("d2", "deep", at=1.0), job("s1", "low", at=2.0), job("s2", "low", at=3.0)]

    assert turns(tree, jobs, takes=lambda _: 1_000) == ["d1", "s1", "d2", "s2"]
    assert turns(tree, jobs, past={"deep": 9}, takes=lambda _: 1_000) == ["d1", "s1", "d2", "s2"]


def test_queues_without_jobs_take_no_turn() -> None:
    assert turns([*TREE, RED], [job("only", "b1")]) == ["only"]


def test_the_head_of_a_department_is_the_job_of_its_next_team() -> None:
    """dept-a stands where its next job stands: after that one had its turn, its second one is younger than dept-b's."""
    jobs = [job("a-old", "a1", at=0.0), job("a-new", "a2", at=5.0), job("b", "b1", at=3.0)]

    assert turns(TREE, jobs) == ["a-old", "b", "a-new"]


def test_a_queues_place_in_the_order_is_that_of_its_best_job() -> None:
    jobs = [job("r-late", "red", at=9.0), job("b", "blue", at=5.0), job("r-early", "red", at=0.0)]

    assert turns([RED, BLUE], jobs) == ["r-early", "b", "r-late"]


def test_a_job_inserted_during_a_turn_of_its_queue_takes_its_place_in_the_order() -> None:
    tree = QueueTree.of([RED, BLUE], INVENTORY)
    late = job("late", at=5.0)
    jobs = [job("a", at=1.0), job("b", at=7.0), job("theirs", "blue", at=3.0)]
    order = QueueOrder(tree, Usage(tree), DominantShares(tree, {}), lambda *_: False, jobs, turn=by_age)
    found = []
    for one in order:
        found.append(one.key)
        if one.key == "ns/a":
            order.insert(late)

    assert found == ["ns/a", "ns/theirs", "ns/late", "ns/b"]


def test_each_queue_competes_with_its_siblings_and_with_its_parents_own_jobs() -> None:
    """All have the same share: the oldest of all is always the next, wherever it lies."""
    queues = [
        make_queue("dept", guaranteed=0),
        make_queue("team", guaranteed=0, parent="dept"),
        make_queue("sub", guaranteed=0, parent="team"),
        make_queue("side", guaranteed=0, parent="dept"),
        RED,
    ]
    names = ("sub", "dept", "red", "sub", "side", "team", "dept", "sub", "team", "red", "dept", "side")
    jobs = [job(f"j{number:02}", name, at=float(number)) for number, name in enumerate(names)]

    assert turns(queues, jobs) == [f"j{number:02}" for number in range(len(names))]
    assert turns(queues, jobs[::-1]) == [f"j{number:02}" for number in range(len(names))]
