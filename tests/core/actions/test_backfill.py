"""Backfill: which jobs may use GPUs that are reserved for a gang."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.core.actions.backfill import Reservation, Reservations
from cotenant.core.allocation.allocation import Allocation, AllocationBatch
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.booked_places import BookedPlaces
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.search import find
from cotenant.core.explain.forecast import Forecast
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import Job, Quota, TenantQueue
from cotenant.core.model.plan import Admit, Evict, EvictionKind, Plan, Reason, Refusal
from cotenant.core.policy import Policy
from cotenant.core.quota.bookings import BookingTerms
from cotenant.core.quota.usage import Charge
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.state.facts import BookingObserved
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot


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
def test_a_small_job_is_backfilled_only_if_it_delays_no_reservation(runtime: int | None, starts: bool) -> None:
    decided = plan(make_job("small", at=2, max_runtime_s=runtime))

    assert admitted(decided) == (["red/small"] if starts else [])
    if not starts:
        assert "GPUs are reserved for red/gang" in decided.verdicts["red/small"].message


def test_a_job_that_ends_in_time_is_backfilled_although_an_equal_one_does_not_end() -> None:
    endless, brief = make_job("endless", at=2), make_job("brief", at=3, max_runtime_s=600)
    assert admitted(plan(endless, brief)) == ["red/brief"]
    assert admitted(plan(endless, brief, replace(brief, key="red/late", uid="late", max_runtime_s=601))) == [
        "red/brief"
    ]


def test_no_place_is_reserved_for_a_start_far_away() -> None:
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
def test_a_job_that_overruns_its_promise_is_evicted(
    jobs: list[Job], changes: dict[str, Any], want: list[tuple[str, str]]
) -> None:
    assert overrun(*jobs, **changes) == want


def test_a_job_that_overran_its_promise_leaves_before_one_that_promised_nothing() -> None:
    honest = make_job("honest", placement=make_placement(("n1", [[1]])), admitted_at=1_599.0)

    assert overrun(honest, make_job("urgent", priority=5)) == [("red/liar", "Preempted")]


def test_a_job_that_overruns_its_promise_delays_a_reservation_by_one_eviction() -> None:
    """The gang is to start at 1,600. A job that promised to have ended by then, and has not, has to leave."""
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
        message="Makes room for red/gang: this job started on GPUs that are reserved for another one, and has run"
        " longer than it declared (expectedRuntime, maxRuntime).",
    )
    toy.finish_evictions()
    assert [action.job for action in toy.cycle().actions] == ["red/gang"]
    assert toy.jobs["red/liar"].backfilled_until is None


def test_a_backfilled_job_that_grows_keeps_its_promise() -> None:
    """Surplus is given back before any job leaves, so growth takes nothing from the reservation."""
    busy = replace(make_job("busy", gpus=2, placement=make_placement(("n1", [[0, 1]]))), admitted_at=0.0)
    gang, elastic = make_job("gang", gpus=4, at=1.0), make_job("e", workers=(1, 2), at=2.0, expected_runtime_s=100)
    toy = ToyCluster([make_node("n1", gpus=4)], [RED], [replace(busy, expected_runtime_s=1_600), gang, elastic])
    toy.now = 1_000.0

    (start,) = toy.cycle().actions

    assert isinstance(start, Admit)
    assert (start.placement.workers, start.backfilled_until) == (2, 1_101.0)


def claim(reservations: Reservations, cycle: Cycle, request: Request, reason: Reason = Reason.WAITING_FOR_GPUS) -> None:
    """Refuse the request for this reason. No job ends, so nothing is reserved for it."""
    never = Forecast(cycle.accounts.current, [], AllocationBatch([]), 0.0)
    refusal = Refusal(reason=reason, message="")
    assert reservations.reserve(request.job, request, refusal, lambda: never) is None


def test_the_first_request_that_waits_for_space_claims_its_classes_and_others_claim_none() -> None:
    nodes = [make_node(f"n-{name}", gpu_class=name) for name in ("A100", "H100", "L4")]
    cycle = Cycle.open(make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=8)], jobs=[]), Policy())
    resolver = RequestResolver(cycle.inventory, cycle.tree)
    reservations = Reservations(cycle.moment, 3_600, BookedPlaces(cycle))

    def claims(*classes: str, reason: Reason = Reason.WAITING_FOR_GPUS) -> bool:
        request = resolver.resolve(make_job("a", classes=classes))
        assert isinstance(request, Request)
        was_claimed = reservations.is_claimed(request)
        claim(reservations, cycle, request, reason)
        return reservations.is_claimed(request) and not was_claimed

    asked = [("A100",), ("H100", "A100"), ("H100", "L4"), ("L4",)]
    assert claims("A100", reason=Reason.WAITING_FOR_QUOTA) is False
    assert [claims(*classes) for classes in asked] == [True, False, True, False]


@pytest.mark.parametrize(
    ("classes", "claimed"), [(("A100",), True), (("H100", "A100"), True), (("H100",), False), (("H100", "L4"), False)]
)
def test_a_request_is_claimed_if_some_class_of_it_is(classes: tuple[str, ...], claimed: bool) -> None:
    nodes = [make_node(f"n-{name}", gpu_class=name) for name in ("A100", "H100", "L4")]
    cycle = Cycle.open(make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=8)], jobs=[]), Policy())
    resolver = RequestResolver(cycle.inventory, cycle.tree)
    first, asks = (resolver.resolve(make_job("a", classes=names)) for names in (("A100",), classes))
    assert isinstance(first, Request)
    assert isinstance(asks, Request)
    reservations = Reservations(cycle.moment, 3_600, BookedPlaces(cycle))
    claim(reservations, cycle, first)

    assert reservations.is_claimed(asks) is claimed


@pytest.mark.parametrize(
    ("ends", "is_collected", "found"),
    [
        ({"max_runtime_s": 600}, True, True),
        ({"expected_runtime_s": 600}, True, False),
        ({"expected_runtime_s": 600}, False, True),
        ({}, False, False),
    ],
    ids=[
        "who must end, also on what is collected",
        "who hopes to, not there",
        "but elsewhere",
        "nobody without a word",
    ],
)
def test_whether_a_job_is_backfilled(ends: dict[str, Any], is_collected: bool, found: bool) -> None:
    small = make_job("small", **ends)
    cycle = Cycle.open(make_snapshot(nodes=[make_node("n1", gpus=1)], queues=[RED], jobs=[small]), Policy())
    request = RequestResolver(cycle.inventory, cycle.tree).resolve(small)
    assert isinstance(request, Request)
    current = cycle.accounts.current
    place = find(current, request, 1)
    assert place is not None
    current.allocate(place.allocation)
    reservations = Reservations(cycle.moment, 3_600, BookedPlaces(cycle))
    reservations.collect(Reservation("red/gang", cycle.moment.at + 600.0, place.allocation, is_collected=is_collected))
    backfill = reservations.backfill(small, request, current)

    assert (backfill is not None) is found
    assert backfill is None or backfill.ends_at == cycle.moment.at + 600.0


def test_places_of_two_classes_in_one_zone_are_reserved_together() -> None:
    nodes = [make_node(f"n-{name}", gpus=1, gpu_class=name) for name in ("A100", "H100")]
    waits = [make_job(name, classes=(name,)) for name in ("A100", "H100")]
    cycle = Cycle.open(make_snapshot(nodes=nodes, queues=[RED], jobs=waits), Policy())
    resolver = RequestResolver(cycle.inventory, cycle.tree)
    reservations = Reservations(cycle.moment, 3_600, BookedPlaces(cycle))
    nothing = AllocationBatch([Allocation((), Charge(-1, "", ()))])
    forecast = Forecast(cycle.accounts.current, [cycle.moment.at + 60.0], nothing, 0.0)

    for job in waits:
        request = resolver.resolve(job)
        assert isinstance(request, Request)
        refusal = Refusal(reason=Reason.WAITING_FOR_GPUS, message="")
        assert reservations.reserve(job, request, refusal, lambda: forecast) is not None

    assert [(kept.job, kept.starts_at, kept.is_collected) for kept in reservations.all()] == [
        ("red/A100", 1_060.0, False),
        ("red/H100", 1_060.0, False),
    ]


def test_a_place_is_reserved_for_a_gang_that_a_zone_quota_sends_to_another_zone() -> None:
    """One more is allowed in east, which has GPUs; of four in west two are held for ten minutes more."""
    nodes = [make_node("e", gpus=4, zone="east"), make_node("w", gpus=4, zone="west")]
    limits = (Quota(zone="east", limit=1_000), Quota(zone="west", limit=8_000))
    busy = replace(
        make_job("busy", workers=2, placement=make_placement(("w", [[0], [1]])), expected_runtime_s=700),
        admitted_at=900.0,
    )
    gang, small = make_job("gang", workers=4, at=1), make_job("small", workers=2, at=2, zones=("west",))
    queue = replace(make_queue("red"), quotas=limits)

    decided = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[busy, gang, small]))

    assert admitted(decided) == []
    assert decided.verdicts["red/gang"].reason == Reason.WAITING_FOR_QUOTA
    assert "GPUs are reserved for red/gang" in decided.verdicts["red/small"].message


def test_places_for_overdue_jobs_of_two_classes_in_one_zone_are_reserved_together() -> None:
    nodes = [make_node(f"n-{name}", gpus=1, gpu_class=name) for name in ("A100", "H100")]
    cycle = Cycle.open(make_snapshot(nodes=nodes, queues=[RED], jobs=[]), Policy())
    resolver, reservations = (
        RequestResolver(cycle.inventory, cycle.tree),
        Reservations(cycle.moment, 3_600, BookedPlaces(cycle)),
    )
    for name in ("A100", "H100"):
        request = resolver.resolve(make_job(name, classes=(name,)))
        assert isinstance(request, Request)
        place = find(cycle.accounts.current, request, 1)
        assert place is not None
        reservations.collect(Reservation(f"red/{name}", 1_600.0, place.allocation, is_collected=True))

    assert [kept.job for kept in reservations.all()] == ["red/A100", "red/H100"]


BOOKING = BookingTerms(name="demo", queue="red", gpu_class="H100", gpus=2, starts_at=100.0, ends_at=200.0)


@pytest.mark.parametrize(
    ("before", "asks", "is_held"),
    [
        pytest.param([], make_job("asks", queue="blue", at=2.0, gpus=2, max_runtime_s=50), False, id="of bookings"),
        pytest.param(
            [make_job("gang", queue="blue", workers=2, at=1.0)],
            make_job("asks", queue="blue", at=2.0, gpus=3, max_runtime_s=50), True,
            id="of a job that waits and of a booking",
        ),
    ],
)  # fmt: skip
def test_a_job_on_booked_gpus_promises_its_end_only_if_a_job_waits_for_them(
    before: list[Job], asks: Job, is_held: bool
) -> None:
    """There are four GPUs: two are booked from 100 on, and one is held until 90."""
    queues = [make_queue("red", guaranteed=1), make_queue("blue", guaranteed=2)]
    busy = [make_job(name, queue="blue", expected_runtime_s=90) for name in ("busy", *(() if before else ("other",)))]
    toy = ToyCluster([make_node("n1", gpus=4)], queues, policy=Policy(protected_runtime_s=10))
    toy.now = 0.0
    toy.state.observe(BookingObserved(BOOKING))
    for job in busy:
        toy.observe(job)
    toy.settle()
    for job in (*before, asks):
        toy.observe(job)

    (start,) = toy.cycle().actions

    assert isinstance(start, Admit)
    assert (start.job, start.backfilled_until is not None) == ("blue/asks", is_held)
