"""The longest hold of anybody in the way: what is counted, for which class, and who is beside the point."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from cotenant.core import Policy
from cotenant.core.actions import holding_times
from cotenant.core.actions.eviction_rules import EvictionRules
from cotenant.core.actions.holding_times import HoldingTimes, LongestHolds
from cotenant.core.actions.tenure import Tenures
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, Node, TenantQueue
from cotenant.core.placement import BestFit
from cotenant.core.runtimes.learned import LearnedRuntimes
from cotenant.core.snapshot.accounting import Accounting
from cotenant.testing import make_job, make_node, make_placement, make_queue

NOW = 10_000.0
POLICY = Policy(collect_after_s=1_000, protected_runtime_s=100)
TENURE = replace(POLICY, tenure_s=2_000)
QUEUES = (make_queue("red", guaranteed=4), make_queue("blue", guaranteed=0), make_queue("green", guaranteed=2))
NODES = (make_node("n1", gpus=4), make_node("a1", gpus=4, gpu_class="A100"))
GANG = make_job("gang", gpus=4, classes=("H100",), max_runtime_s=600)


def holder(name: str, *columns: int, node: str = "n1", ran_s: float = 1_000.0, **changes: Any) -> Job:
    job = make_job(name, gpus=len(columns), placement=make_placement((node, [list(columns)])), **changes)
    return replace(job, admitted_at=NOW - ran_s)


class World:
    """Four H100 and four A100; jobs that have a placement run, the others wait."""

    def __init__(
        self,
        *jobs: Job,
        policy: Policy = POLICY,
        runs: dict[str, int] | None = None,
        queues: tuple[TenantQueue, ...] = QUEUES,
        nodes: tuple[Node, ...] = NODES,
    ) -> None:
        """`runs`: queue → how long all earlier jobs of it ran."""
        counted = Accounting.of(nodes, queues, jobs)
        self.running = RunningJobs(counted.running, counted.allocations, counted.tree)
        resolver = RequestResolver(counted.inventory, counted.tree)
        self.requests: dict[str, tuple[Job, Request]] = {}
        for job in counted.pending:
            request = resolver.resolve(job)
            assert isinstance(request, Request), request
            self.requests[job.key.partition("/")[2]] = job, request
        self.times = HoldingTimes.of(self.running, self.requests.values())
        learned = LearnedRuntimes({f"queue|{name}": (seconds,) * 10 for name, seconds in (runs or {}).items()})
        self.moment = Moment(NOW)
        self.holds = LongestHolds(
            self.times,
            Tenures(EvictionRules(counted.tree, policy, self.moment), learned),
            list(counted.allocations.items()),
            Occupancy(counted.ledger, counted.usage, BestFit()),
        )

    def longest(self, name: str = "gang") -> tuple[float, bool]:
        return self.holds.longest_s(*self.requests[name])


ENDS = holder("busy", 0, 1, max_runtime_s=3_000)
OPEN = holder("busy", 0, 1)
STAYS = holder("busy", 0, preemptible=False, max_runtime_s=3_000)
WAITS = make_job("other", classes=("H100",), max_runtime_s=4_000)
UNSAID = make_job("other", classes=("H100",))


@pytest.mark.parametrize(
    ("jobs", "world", "want"),
    [
        pytest.param([], {}, (600, True), id="its own maxRuntime, where it is alone"),
        pytest.param([ENDS], {}, (3_000, True), id="that of who runs"),
        pytest.param([ENDS, WAITS], {}, (4_000, True), id="or of who waits"),
        pytest.param(
            [replace(ENDS, max_runtime_s=60)], {"policy": replace(POLICY, protected_runtime_s=900)}, (900, True),
            id="protected minutes at least",
        ),
        pytest.param([ENDS, WAITS], {"policy": TENURE}, (2_000, True), id="a tenure ends them all"),
        pytest.param([OPEN, UNSAID], {"policy": TENURE}, (2_000, True), id="also those that say nothing"),
        pytest.param(
            [ENDS, UNSAID], {"runs": {"red": 5_000}}, (5_000, False),
            id="what was learned of who says nothing",
        ),
        pytest.param([ENDS, UNSAID], {"runs": {"red": 2_000}}, (3_000, False), id="where it is less, it counts too"),
        pytest.param([ENDS, UNSAID], {}, (inf, True), id="nothing was learned"),
        pytest.param([ENDS], {"runs": {"red": 5_000}}, (3_000, True), id="nobody who would need it"),
        pytest.param([replace(ENDS, evicting=True)], {}, (600, True), id="who leaves anyway is beside the point"),
        pytest.param([OPEN], {}, (inf, True), id="who runs without end in the way"),
        pytest.param([holder("busy", 0, node="a1")], {}, (600, True), id="who does so elsewhere"),
        pytest.param([OPEN], {"runs": {"red": 5_000}}, (5_000, False), id="who runs as was learned"),
        pytest.param([replace(OPEN, admitted_at=0.0)], {"runs": {"red": 5_000}}, (inf, True), id="who has outlived it"),
        pytest.param([holder("busy", 0, queue="gone")], {}, (inf, True), id="who is in no queue"),
        pytest.param(
            [holder("busy", 0, queue="gone")], {"runs": {"gone": 7_000}}, (7_000, False),
            id="as learned of it",
        ),
        pytest.param([holder("busy", 0, queue="blue")], {}, (600, True), id="who borrows from the guarantee leaves"),
        pytest.param(
            [holder("busy", 0, queue="blue")], {"runs": {"blue": 7_000}}, (600, True),
            id="however long it ran",
        ),
        pytest.param([holder("busy", 0, queue="green")], {}, (inf, True), id="who may lie inside another guarantee"),
        pytest.param(
            [replace(STAYS, admitted_at=NOW - 999.5)], {"policy": TENURE}, (inf, True),
            id="who stays for longer than a tenure",
        ),
        pytest.param([STAYS], {"policy": TENURE}, (2_000, True), id="not if it ends within one"),
        pytest.param(
            [holder("busy", 0, queue="gone", max_runtime_s=9_000)],
            {"policy": TENURE},
            (inf, True),
            id="who is in no queue, and does not end within one",
        ),
    ],
)  # fmt: skip
def test_the_longest_hold_is(jobs: list[Job], world: dict[str, Any], want: tuple[float, bool]) -> None:
    assert World(GANG, *jobs, **world).longest() == want


def test_who_stays_is_beside_the_point_where_there_is_a_place_beside_it() -> None:
    beside = replace(GANG, gpu=replace(GANG.gpu, count=2))

    assert World(beside, OPEN).longest() == (600, True)
    assert World(beside, OPEN, holder("more", 2)).longest() == (inf, True)
    assert World(beside, OPEN, holder("more", 2, 3, max_runtime_s=900)).longest() == (900, True)


def test_a_foreign_claim_without_end_is_beside_the_point_where_there_is_a_place_beside_it() -> None:
    assert World(replace(GANG, gpu=replace(GANG.gpu, count=2)), holder("busy", 0, queue="gone")).longest() == (
        600,
        True,
    )


def test_who_waits_is_not_in_its_own_way() -> None:
    """It says nothing of its own end, and neither does any other; but no other wants its class."""
    waits = replace(GANG, max_runtime_s=None)

    assert World(waits).longest() == (100, True)
    assert World(waits, replace(UNSAID, gpu=replace(UNSAID.gpu, classes=("A100",)))).longest() == (100, True)
    assert World(waits, UNSAID).longest() == (inf, True)
    assert World(waits, replace(waits, key="red/twin", uid="twin")).longest() == (inf, True)


def test_who_waits_and_wants_any_class_is_in_the_way_of_all() -> None:
    either = replace(UNSAID, gpu=replace(UNSAID.gpu, classes=()))

    assert World(GANG, either).longest() == (inf, True)


def test_a_request_for_one_class_changes_nothing_for_another() -> None:
    """Of the one class two wait without end; in the way on the other one runs without end."""
    waits = [replace(UNSAID, key=f"red/{name}", uid=name) for name in ("x", "y")]
    other = replace(GANG, gpu=replace(GANG.gpu, classes=("A100",)), key="red/other")
    world = World(*waits, other, holder("busy", 0, node="a1"))

    assert (world.longest("x"), world.longest("other")) == ((inf, True), (inf, True))


def test_who_waits_without_end_for_one_of_its_classes_is_in_the_way() -> None:
    either = replace(GANG, gpu=replace(GANG.gpu, classes=()))

    assert World(either, UNSAID).longest() == (inf, True)


def test_requests_of_equal_rights_share_what_was_worked_out_and_each_has_its_own_place() -> None:
    small = make_job("small", classes=("H100",), max_runtime_s=60)
    world = World(GANG, small, OPEN)

    assert (world.longest("gang"), world.longest("small")) == ((inf, True), (600, True))


@pytest.mark.parametrize(
    ("jobs", "want"),
    [
        pytest.param([ENDS, WAITS], (4_000, {}, []), id="the longest maxRuntime of who waits"),
        pytest.param([ENDS, GANG], (3_000, {}, []), id="or of who runs"),
        pytest.param([OPEN, UNSAID], (0, {("red", "H100"): 1}, ["red/busy"]), id="and who has none"),
        pytest.param([replace(ENDS, preemptible=False)], (3_000, {}, ["red/busy"]), id="who cannot be evicted"),
        pytest.param([replace(OPEN, evicting=True), replace(ENDS, evicting=True)], (0, {}, []), id="not who leaves"),
        pytest.param(
            [make_job("x", classes=("A100", "H100")), make_job("y", classes=("A100",)), make_job("z", queue="blue")],
            (0, {("red", "A100"): 2, ("red", "H100"): 1, ("blue", "A100"): 1, ("blue", "H100"): 1}, []),
            id="in every class that may serve",
        ),
    ],
)
def test_holding_times_of_a_cycle(jobs: list[Job], want: tuple[int, dict[tuple[str, str], int], list[str]]) -> None:
    """(the longest maxRuntime, waiting jobs without one by queue and class, running jobs without one)."""
    world = World(*jobs)
    index = world.running.tree.index
    expected = HoldingTimes(want[0], Counter({(index[queue], name): n for (queue, name), n in want[1].items()}), [])

    assert (world.times.declared_s, world.times.waiting) == (expected.declared_s, expected.waiting)
    assert [job.key for job in world.times.running] == want[2]


@pytest.mark.parametrize(
    ("jobs", "world", "want"),
    [
        pytest.param([OPEN], {}, (inf, True), id="one may stay, wherever it is"),
        pytest.param([OPEN], {"runs": {"red": 5_000}}, (5_000, False), id="unless all end as was learned"),
        pytest.param([replace(OPEN, admitted_at=5_000.0)], {"runs": {"red": 5_000}}, (inf, True), id="which is over"),
        pytest.param([holder("busy", 0, queue="gone")], {}, (inf, True), id="in no queue"),
        pytest.param([holder("busy", 0, queue="blue")], {}, (600, True), id="unless it has to leave"),
        pytest.param([OPEN], {"policy": TENURE}, (2_000, True), id="unless there is a tenure"),
        pytest.param([holder("busy", 0, queue="gone")], {"policy": TENURE}, (inf, True), id="which nobody asks to go"),
        pytest.param([replace(OPEN, preemptible=False)], {"policy": TENURE}, (inf, True), id="or who may not be asked"),
        pytest.param([STAYS], {"policy": TENURE}, (2_000, True), id="unless it ends in time"),
        pytest.param(
            [STAYS, holder("late", 2, preemptible=False, max_runtime_s=9_000)],
            {"policy": TENURE},
            (inf, True),
            id="the last to end",
        ),
        pytest.param(
            [holder("busy", 0, queue="blue", preemptible=False)], {}, (inf, True), id="who borrows and may not be asked"
        ),
        pytest.param(
            [OPEN, holder("late", 2, 3, ran_s=9_000.0)], {"runs": {"red": 5_000}}, (inf, True),
            id="the oldest",
        ),
    ],
)  # fmt: skip
def test_where_too_many_run_to_ask_each(
    jobs: list[Job], world: dict[str, Any], want: tuple[float, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place beside them is not looked for."""
    monkeypatch.setattr(holding_times, "_FEW", len(jobs) - 1)
    small = replace(GANG, gpu=replace(GANG.gpu, count=1))

    assert World(small, *jobs, **world).longest() == want


def test_where_too_many_run_to_ask_each_it_is_so_for_every_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding_times, "_FEW", 0)
    other = replace(GANG, gpu=replace(GANG.gpu, classes=("A100",)), key="red/other")
    world = World(GANG, other, OPEN)

    assert (world.longest("gang"), world.longest("other")) == ((inf, True), (inf, True))


@pytest.mark.parametrize(("number", "want"), [(256, (600, True)), (257, (inf, True))])
def test_up_to_256_are_asked_each_and_of_more_one_is_taken_to_be_in_the_way(
    number: int, want: tuple[float, bool]
) -> None:
    nodes = (make_node("n1", gpus=300),)
    running = [holder(f"busy-{column}", column) for column in range(number)]
    queues = (make_queue("red", guaranteed=300),)

    assert World(GANG, *running, nodes=nodes, queues=queues).longest() == want
