"""A gang waits for the last GPUs: who may still use those that are free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core import Policy, schedule
from cotenant.core.actions.backfill import Reservations
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.model.plan import Admit, Evict, EvictionKind, Plan, Reason, Refusal
from cotenant.testing import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot


def plan(*small: Job, policy: Policy | None = None) -> Plan:
    """Four GPUs, two busy until 1,600; now is 1,000; a gang of four is first in line."""
    busy = [
        replace(
            make_job(f"busy{column}", placement=make_placement(("n1", [[column]])), expected_runtime_s=700),
            admitted_at=900.0,
        )
        for column in range(2)
    ]
    gang = make_job("gang", workers=4, at=1)
    snapshot = make_snapshot(
        nodes=[make_node("n1", gpus=4)], queues=[make_queue("red", guaranteed=8)], jobs=[*busy, gang, *small]
    )
    return schedule(snapshot, policy or Policy())


def admitted(decided: Plan) -> list[str]:
    return [action.job for action in decided.actions if isinstance(action, Admit)]


@pytest.mark.parametrize(
    ("runtime", "starts"),
    [(600, True), (601, False), (None, False)],
    ids=["ends in time", "ends too late", "does not say when it ends"],
)
def test_a_small_job_goes_first_only_if_it_delays_nobody(runtime: int | None, starts: bool) -> None:
    decided = plan(make_job("small", at=2, max_runtime_s=runtime))

    assert admitted(decided) == (["red/small"] if starts else [])
    assert decided.verdicts["red/gang"].estimated_start_at == 1_600.0
    if not starts:
        assert "places are kept for red/gang" in decided.verdicts["red/small"].message


def test_who_ends_in_time_is_not_held_back_by_somebody_who_asks_for_the_same_and_does_not() -> None:
    endless, brief = make_job("endless", at=2), make_job("brief", at=3, max_runtime_s=600)
    assert admitted(plan(endless, brief)) == ["red/brief"]
    assert admitted(plan(endless, brief, replace(brief, key="red/late", uid="late", max_runtime_s=601))) == [
        "red/brief"
    ]


def test_nothing_is_kept_for_a_start_that_is_far_away() -> None:
    assert admitted(plan(make_job("small", at=2), policy=Policy(reserve_within_s=300))) == ["red/small"]


RED, BLUE = make_queue("red", limit=8), make_queue("blue", limit=8)


def overrun(
    *others: Job, queues: tuple[TenantQueue, ...] = (RED, BLUE), now: float = 1_600.0, **changes: Any
) -> list[tuple[str, str]]:
    """Evictions on two GPUs: one is held by a job that was to have ended by 1,600, the other
    is free."""
    held = make_placement(("n1", [[0]]))
    given: dict[str, Any] = {"placement": held, "admitted_at": 1_000.0, "backfilled_until": 1_600.0, "priority": 1}
    liar = make_job("liar", **(given | changes))
    snapshot = make_snapshot(nodes=[make_node("n1")], queues=list(queues), jobs=[liar, *others], now=now)
    return [(action.job, action.kind.value) for action in schedule(snapshot).actions if isinstance(action, Evict)]


GANG = make_job("gang", workers=2, at=1.0, priority=1)
BLUE_GANG = make_job("gang", queue="blue", workers=2, at=1.0)
LEAVES = [("red/liar", "Overran")]


@pytest.mark.parametrize(
    ("jobs", "changes", "want"),
    [
        pytest.param([GANG], {}, LEAVES, id="for its own queue"),
        pytest.param([BLUE_GANG], {}, LEAVES, id="for another queue, of what is borrowed"),
        pytest.param([GANG], {"now": 1_599.0}, [], id="not before its time is over"),
        pytest.param([BLUE_GANG], {"now": 1_599.0}, [], id="not before its time is over, for another queue"),
        pytest.param([GANG], {"backfilled_until": None}, [], id="not if it started in its own turn"),
        pytest.param([], {}, [], id="not as long as nobody needs the place"),
        pytest.param([replace(GANG, workers_min=1, workers_max=1)], {}, [], id="not if there is another place"),
        pytest.param([replace(GANG, workers_min=3, workers_max=3)], {}, [], id="not in vain"),
        pytest.param([replace(GANG, priority=0)], {}, [], id="not for a lower priority"),
        pytest.param(
            [GANG], {"queues": (replace(RED, protected_runtime_s=9_999), BLUE)}, LEAVES, id="in its protected time too"
        ),
        pytest.param(
            [BLUE_GANG], {"queues": (make_queue("red", guaranteed=1), BLUE)}, [], id="not of what is guaranteed"
        ),
    ],
)
def test_a_job_that_outlives_its_word_leaves(
    jobs: list[Job], changes: dict[str, Any], want: list[tuple[str, str]]
) -> None:
    assert overrun(*jobs, **changes) == want


def test_who_outlived_his_word_leaves_before_who_gave_none() -> None:
    honest = make_job("honest", placement=make_placement(("n1", [[1]])), admitted_at=1_599.0)

    assert overrun(honest, make_job("urgent", priority=5)) == [("red/liar", "Preempted")]


def test_a_lie_delays_a_reservation_by_one_eviction() -> None:
    """The gang is to start at 1,600. Whoever promised to be gone by then and is not has to leave."""
    busy = replace(make_job("busy", gpus=3, placement=make_placement(("n1", [[0, 1, 2]]))), admitted_at=0.0)
    gang, liar = make_job("gang", gpus=4, at=1.0), make_job("liar", at=2.0, expected_runtime_s=500)
    toy = ToyCluster([make_node("n1", gpus=4)], [RED], [replace(busy, expected_runtime_s=1_600), gang, liar])
    toy.now = 1_000.0

    started = toy.cycle().actions
    assert [(action.job, action.backfilled_until) for action in started if isinstance(action, Admit)] == [
        ("red/liar", 1_501.0)
    ]
    toy.end("red/busy")
    toy.now = 1_500.0
    (eviction,) = toy.cycle().actions
    assert eviction == Evict(
        job="red/liar",
        kind=EvictionKind.OVERRAN,
        in_favour_of="red/gang",
        message="Makes room for red/gang: it started on GPUs that were kept for another job, because it was to have"
        " ended by now (expectedRuntime, maxRuntime).",
    )
    toy.finish_evictions()
    assert [action.job for action in toy.cycle().actions] == ["red/gang"]
    assert toy.jobs["red/liar"].backfilled_until is None


def test_a_backfilled_job_that_grows_has_promised_no_less() -> None:
    """Surplus is given back before any job leaves, so growing takes nothing from the reservation."""
    busy = replace(make_job("busy", gpus=2, placement=make_placement(("n1", [[0, 1]]))), admitted_at=0.0)
    gang, elastic = make_job("gang", gpus=4, at=1.0), make_job("e", workers=(1, 2), at=2.0, expected_runtime_s=100)
    toy = ToyCluster([make_node("n1", gpus=4)], [RED], [replace(busy, expected_runtime_s=1_600), gang, elastic])
    toy.now = 1_000.0

    (start,) = toy.cycle().actions

    assert isinstance(start, Admit)
    assert (start.placement.workers, start.backfilled_until) == (2, 1_101.0)


def test_the_first_that_waits_for_space_has_all_its_classes_and_who_is_refused_otherwise_none() -> None:
    nodes = [make_node(f"n-{name}", gpu_class=name) for name in ("A100", "H100", "L4")]
    cycle = Cycle.open(make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=8)], jobs=[]), Policy())
    resolver = RequestResolver(cycle.inventory, cycle.tree)
    reservations = Reservations(cycle.moment, 3_600)

    def claims(*classes: str, reason: Reason = Reason.WAITING_FOR_GPUS) -> bool:
        request = resolver.resolve(make_job("a", classes=classes))
        assert isinstance(request, Request)
        return reservations.claims_classes(request, Refusal(reason=reason, message=""))

    asked = [("A100",), ("H100", "A100"), ("H100", "L4"), ("L4",)]
    assert claims("A100", reason=Reason.WAITING_FOR_QUOTA) is False
    assert [claims(*classes) for classes in asked] == [True, False, True, False]
