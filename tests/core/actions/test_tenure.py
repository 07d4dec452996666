"""Tenures: which jobs may be asked to leave for an overdue one, and how long the others are assumed to stay."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from cotenant.core.actions.tenure import Tenures, guarantees_beside, waits_since
from cotenant.core.actions.victims import JobParts
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.eviction_rules import EvictionRules
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.policy import Policy
from cotenant.core.snapshot.accounting import Accounting
from tests.support.clusters import make_job, make_node, make_placement, make_queue

NOW = 10_000.0
POLICY = Policy(collect_after_s=1_000, protected_runtime_s=100)
EAGER = replace(POLICY, protected_runtime_s=0)
TENURE = replace(POLICY, tenure_s=2_000)
GANG = make_job("gang", gpus=2)
OWNS = (make_queue("red", guaranteed=2), make_queue("blue", guaranteed=0))
"""Red is guaranteed what the gang asks for."""
SHARES = (make_queue("red", guaranteed=2), make_queue("blue", guaranteed=1))
BORROWS = (make_queue("red", guaranteed=1), make_queue("blue", guaranteed=1))
"""The gang has to borrow, and another queue has a guarantee."""
FREE = (make_queue("red", guaranteed=1), make_queue("blue", guaranteed=0))
"""The gang has to borrow, and no other queue has a guarantee."""


def holder(name: str = "busy", *columns: int, ran_s: float = 1_000.0, **changes: Any) -> Job:
    job = make_job(
        name, gpus=len(columns or (0,)), placement=make_placement(("n1", [list(columns or (0,))])), **changes
    )
    return replace(job, admitted_at=NOW - ran_s)


class World:
    """A gang of two GPUs waits, and other jobs hold GPUs of the only node."""

    def __init__(
        self,
        *jobs: Job,
        queues: tuple[TenantQueue, ...] = OWNS,
        policy: Policy = POLICY,
        evicted: tuple[str, ...] = (),
        now: float = NOW,
    ) -> None:
        counted = Accounting.of([make_node("n1", gpus=8)], queues, [*jobs, GANG])
        self.moment = Moment(now)
        self.running = RunningJobs(counted.running, counted.allocations, counted.tree)
        self.rules = EvictionRules(counted.tree, policy, self.moment, frozenset(evicted))
        self.inventory = counted.inventory
        self.tenures = Tenures(self.rules)
        resolved = RequestResolver(counted.inventory, counted.tree).resolve(GANG)
        assert isinstance(resolved, Request)
        self.request = resolved

    def holds_s(self, job: Job) -> float:
        table = self.running.holders
        return float(self.tenures.holds_s(self.request, table)[list(table.keys).index(job.key)])

    def leave(self) -> list[str]:
        parts = JobParts(self.running, self.inventory, self.rules)
        found = self.tenures.candidates(GANG, self.request, self.running, parts)
        return [
            one.job.key.partition("/")[2] + (f" {one.ranks.start}" if one.ranks else "")
            for one in (*found.surplus, *found.jobs)
        ]


@pytest.mark.parametrize(
    ("waits_s", "patience_s", "overdue"),
    [
        pytest.param(999.5, 1_000, False, id="not before its patience is over"),
        pytest.param(1_000.0, 1_000, True, id="when it is just over"),
        pytest.param(90_000.0, 0, False, id="never where no patience is set"),
        pytest.param(1.0, 1, True, id="after a second, where that is set"),
    ],
)
def test_a_job_is_overdue(waits_s: float, patience_s: int, overdue: bool) -> None:
    world = World(policy=replace(POLICY, collect_after_s=patience_s))

    assert world.tenures.is_overdue(make_job("a", at=NOW - waits_s)) is overdue


def test_a_wait_begins_with_the_submission_or_anew_after_a_run() -> None:
    assert waits_since(make_job("a", at=10.0)) == 10.0
    assert waits_since(replace(make_job("a", at=10.0), requeued_at=50.0)) == 50.0


PROTECTS = (make_queue("red", guaranteed=2, protected_runtime_s=3_000), make_queue("blue", guaranteed=0))


@pytest.mark.parametrize(
    ("policy", "queues", "want"),
    [
        pytest.param(POLICY, OWNS, (inf, 100), id="none is set"),
        pytest.param(TENURE, OWNS, (2_000, 100), id="as it is set"),
        pytest.param(replace(TENURE, tenure_s=50), OWNS, (100, 100), id="protected minutes are kept"),
        pytest.param(TENURE, PROTECTS, (3_000, 3_000), id="also those of any queue"),
        pytest.param(replace(TENURE, protected_runtime_s=0), OWNS, (2_000, 0), id="where there are any"),
    ],
)
def test_the_longest_tenure_and_protection_of_any_job(
    policy: Policy, queues: tuple[TenantQueue, ...], want: tuple[float, int]
) -> None:
    tenures = World(policy=policy, queues=queues).tenures

    assert (tenures.longest_s, tenures.protected_s) == want


@pytest.mark.parametrize(
    ("queues", "guaranteed", "entitled"),
    [
        pytest.param(OWNS, True, True, id="covered by its guarantee"),
        pytest.param(SHARES, True, True, id="and whatever others are guaranteed"),
        pytest.param(BORROWS, False, False, id="not covered, and others are guaranteed something"),
        pytest.param(FREE, False, True, id="not covered, but nobody has a better claim"),
    ],
)
def test_whether_a_request_is_guaranteed_or_entitled(
    queues: tuple[TenantQueue, ...], guaranteed: bool, entitled: bool
) -> None:
    """What its queue holds does not count."""
    world = World(holder("mine", 0), holder("too", 1), queues=queues)

    assert world.tenures.is_guaranteed(world.request) is guaranteed
    assert world.tenures.is_entitled(world.request) is entitled


def beside(guaranteed: int, *, above: int | None = None) -> tuple[TenantQueue, ...]:
    """A queue beside the gang's with this guarantee; `above`: the guarantee of its parent, if it has one."""
    parent = () if above is None else (make_queue("dept", guaranteed=above),)
    blue = make_queue("blue", guaranteed=guaranteed, parent=parent[0].name if parent else None)
    return (make_queue("red", guaranteed=0), blue, *parent)


@pytest.mark.parametrize(
    ("queues", "held", "has_room"),
    [
        pytest.param(beside(7), 7, False, id="other queues hold all but one of 8 GPUs inside their guarantees"),
        pytest.param(beside(7), 6, True, id="they leave a part of their guarantees idle"),
        pytest.param(beside(1), 7, True, id="they borrow most of what they hold"),
        pytest.param(beside(3, above=7), 7, False, id="the guarantee of the queue above covers it"),
        pytest.param(beside(7, above=0), 7, False, id="their own does, and that of the queue above does not"),
    ],
)
def test_gpus_are_reserved_for_a_borrower_that_has_room_beside_guarantees_in_use(
    queues: tuple[TenantQueue, ...], held: int, has_room: bool
) -> None:
    world = World(holder("busy", *range(held), queue="blue"), queues=queues)
    usage = Accounting.of([make_node("n1", gpus=8)], queues, world.running.by_key.values()).usage

    assert world.tenures.has_room(world.request, usage) is has_room


LENT = {"queue": "blue"}
GONE = {"queue": "gone"}


@pytest.mark.parametrize(
    ("job", "world", "seconds"),
    [
        pytest.param({}, {}, inf, id="without end where nothing is known"),
        pytest.param({"max_runtime_s": 5_000}, {}, 5_000, id="for its maxRuntime"),
        pytest.param({"max_runtime_s": 60}, {}, 100, id="for its protected minutes at least"),
        pytest.param({}, {"policy": TENURE}, 2_000, id="for its tenure"),
        pytest.param({"max_runtime_s": 5_000}, {"policy": TENURE}, 2_000, id="also where it may run for longer"),
        pytest.param({"max_runtime_s": 500}, {"policy": TENURE}, 500, id="but not where it may not"),
        pytest.param({}, {"policy": TENURE, "queues": FREE}, 2_000, id="for its tenure, also for who borrows freely"),
        pytest.param({}, {"policy": TENURE, "queues": BORROWS}, inf, id="not for who borrows from guarantees"),
        pytest.param({"preemptible": False}, {"policy": TENURE}, inf, id="nobody asks it to leave"),
        pytest.param({"preemptible": False, "max_runtime_s": 60}, {}, 60, id="nobody asks it, and it ends"),
        pytest.param(GONE, {"policy": TENURE}, inf, id="nor who is in no queue"),
        pytest.param(LENT, {}, 100, id="lent: until its protected minutes are over"),
        pytest.param(LENT | {"max_runtime_s": 500}, {}, 500, id="lent: it ends by itself"),
        pytest.param(LENT | {"max_runtime_s": 9_000}, {}, 4_000, id="lent: for four times the patience at most"),
        pytest.param(LENT, {"queues": SHARES}, inf, id="of a queue that is guaranteed something: it may be inside"),
        pytest.param(LENT, {"queues": FREE}, inf, id="lent, but not to a guarantee of the request"),
        pytest.param(LENT | {"preemptible": False}, {}, inf, id="lent, and nobody asks it to leave"),
    ],
)
def test_how_long_a_holder_is_assumed_to_hold_gpus(job: dict[str, Any], world: dict[str, Any], seconds: float) -> None:
    busy = holder(**job)
    at = World(busy, **world)

    assert at.holds_s(busy) == seconds


def test_one_guaranteeing_quota_line_is_enough_to_cover_a_job() -> None:
    lines = (*make_queue("blue", guaranteed=0, gpu_class="A100").quotas, *make_queue("blue", guaranteed=1).quotas)
    busy = holder(queue="blue")
    at = World(busy, queues=(make_queue("red", guaranteed=2), make_queue("blue", quotas=lines)))

    assert at.holds_s(busy) == inf


def test_a_guarantee_of_a_queue_above_covers_jobs_of_the_queues_below() -> None:
    """Blue is guaranteed nothing itself, but the department that it is part of is."""
    queues = (
        make_queue("red", guaranteed=2),
        make_queue("dept", guaranteed=1),
        make_queue("blue", guaranteed=0, parent="dept"),
    )
    busy = holder(queue="blue")
    at = World(busy, queues=queues)

    assert at.holds_s(busy) == inf


@pytest.mark.parametrize(
    ("job", "world", "leaves"),
    [
        pytest.param({}, {}, False, id="nobody inside a guarantee without a tenure"),
        pytest.param({"ran_s": 2_000.0}, {"policy": TENURE}, True, id="whose tenure is over"),
        pytest.param({"ran_s": 1_999.5}, {"policy": TENURE}, False, id="nobody half a second before"),
        pytest.param({"ran_s": 2_000.0}, {"policy": TENURE, "queues": FREE}, True, id="for who borrows freely, too"),
        pytest.param(
            {"ran_s": 9_000.0}, {"policy": TENURE, "queues": BORROWS}, False, id="not for who cannot claim it"
        ),
        pytest.param({"ran_s": 9_000.0}, {"queues": FREE}, False, id="nobody for who borrows where there is no tenure"),
        pytest.param({"ran_s": 2_000.0, "preemptible": False}, {"policy": TENURE}, False, id="who cannot be evicted"),
        pytest.param(
            {"ran_s": 2_000.0}, {"policy": TENURE, "evicted": ("red/busy",)}, False, id="who was just evicted"
        ),
        pytest.param(LENT | {"ran_s": 100.0}, {}, True, id="lent, and its protected minutes are over"),
        pytest.param(LENT | {"ran_s": 99.5}, {}, False, id="lent, and they are not"),
        pytest.param(LENT | {"ran_s": 0.0}, {"policy": EAGER}, True, id="lent, and it has none"),
        pytest.param(LENT | {"ran_s": 999.5, "max_runtime_s": 1_000}, {}, False, id="lent, and it will end"),
        pytest.param(LENT | {"ran_s": 4_000.0, "max_runtime_s": 90_000}, {}, True, id="lent, after all patience"),
        pytest.param(LENT | {"ran_s": 3_999.5, "max_runtime_s": 90_000}, {}, False, id="lent, and not yet"),
        pytest.param(LENT | {"ran_s": 9_000.0}, {"queues": SHARES}, False, id="inside the guarantee of another queue"),
        pytest.param(GONE | {"ran_s": 9_000.0}, {"policy": TENURE}, False, id="who is in no queue"),
    ],
)
def test_the_job_that_leaves_for_an_overdue_one(job: dict[str, Any], world: dict[str, Any], leaves: bool) -> None:
    assert World(holder(**job), **world).leave() == (["busy"] if leaves else [])


def test_a_job_that_is_being_resized_leaves_after_the_resize() -> None:
    resized = replace(holder(ran_s=9_000.0), resizing_from=make_placement(("n1", [[0], [1]])))

    assert World(resized, policy=TENURE).leave() == []


def test_the_job_that_loses_the_least_work_leaves_first_whatever_its_queue() -> None:
    jobs = [
        holder("long", 0, ran_s=3_000.0),
        holder("saved", 1, ran_s=3_000.0, last_checkpoint_at=NOW - 10),
        holder("wide", 2, 3, ran_s=2_500.0),
        holder("lent", 4, ran_s=200.0, queue="blue"),
    ]

    assert World(*jobs, policy=TENURE).leave() == ["saved", "lent", "long", "wide"]


def test_an_elastic_job_gives_up_its_last_surplus_worker_first() -> None:
    place = make_placement(("n1", [[0], [1], [2]]))
    grown = replace(make_job("grown", workers=(1, 3), placement=place), admitted_at=NOW - 9_000.0)

    assert World(grown, policy=TENURE).leave() == ["grown 2", "grown 1", "grown"]


def test_gpus_beyond_a_queues_own_guarantee_are_lent() -> None:
    """The oldest lie inside it."""
    jobs = [holder(name, column, at=column) for column, name in enumerate(("first", "second", "third"))]

    assert World(*jobs).leave() == ["third"]


@pytest.mark.parametrize(
    ("submitted", "leave"),
    [
        pytest.param((-2.0, -1.0, 1.0), [], id="older jobs fill the guarantee, so the gang would borrow as well"),
        pytest.param((-1.0, 1.0, 2.0), [], id="an older job leaves too little of it"),
        pytest.param((1.0, 2.0, 3.0), ["third"], id="all of it is left by older jobs"),
    ],
)
def test_a_borrower_of_its_own_queue_leaves_only_for_a_job_that_would_not_borrow(
    submitted: tuple[float, ...], leave: list[str]
) -> None:
    jobs = [holder(name, column, at=submitted[column]) for column, name in enumerate(("first", "second", "third"))]

    assert World(*jobs).leave() == leave


def test_a_guarantee_beside_belongs_to_a_queue_neither_above_nor_below() -> None:
    queues = [
        make_queue("dept", guaranteed=4),
        make_queue("red", guaranteed=0, parent="dept"),
        make_queue("team", guaranteed=2, parent="red"),
        make_queue("green", guaranteed=1, parent="dept"),
        make_queue("other", guaranteed=0),
    ]

    def beside(*names: str) -> dict[str, bool]:
        tree = Accounting.of([make_node("n1")], [one for one in queues if one.name in names], []).tree
        return {name: guarantees_beside(tree, tree.index[name]) for name in names}

    assert beside("dept", "red", "team") == {"dept": False, "red": False, "team": False}
    assert beside("dept", "red", "team", "green", "other") == {
        "dept": False,
        "red": True,
        "team": True,
        "green": True,
        "other": True,
    }
