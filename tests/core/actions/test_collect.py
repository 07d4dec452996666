"""GPUs reserved for an overdue job: which, which jobs may use them before it, and what the overdue job is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cotenant.core.actions.backfill import Reservation
from cotenant.core.actions.collect import Collection, basis_without, collect, holders_of
from cotenant.core.actions.tenure import Tenures
from cotenant.core.allocation.allocation import Allocation
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.booked_places import BookedPlaces
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.eviction_rules import EvictionRules
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.explain.pending_reason import explain_briefly
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, Node, TenantQueue
from cotenant.core.model.plan import Admit, Evict, Plan, Reason, Refusal, StartBound
from cotenant.core.placement import BestFit
from cotenant.core.policy import Policy
from cotenant.core.quota.usage import Charge
from cotenant.core.scheduling.admission import Admission
from cotenant.core.scheduling.scheduler import decide, schedule
from cotenant.core.snapshot.accounting import Accounting
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

NOW = 10_000.0
RED, BLUE = make_queue("red", guaranteed=2), make_queue("blue", guaranteed=0)
POLICY = Policy(collect_after_s=5_000)
GANG = make_job("gang", gpus=2, at=1_000.0)
NODE = make_node("n1", gpus=2)


def busy(queue: str = "red", **changes: Any) -> Job:
    """A job on the first of two GPUs for 1,000 s."""
    return make_job("busy", queue=queue, placement=make_placement(("n1", [[0]])), admitted_at=9_000.0, **changes)


def plan(*jobs: Job, policy: Policy = POLICY, blue: int = 0, **queue: Any) -> Plan:
    queues = [replace(RED, **queue), make_queue("blue", guaranteed=blue)]
    snapshot = make_snapshot(nodes=[make_node("n1", gpus=2)], queues=queues, jobs=list(jobs), now=NOW)
    return schedule(snapshot, policy)


def turn_of_gang(
    jobs: list[Job],
    policy: Policy = POLICY,
    nodes: Sequence[Node] = (NODE,),
    queues: Sequence[TenantQueue] = (RED, BLUE),
) -> Admission:
    """After the turn of the gang."""
    cycle = Cycle.open(make_snapshot(nodes=list(nodes), queues=list(queues), jobs=jobs, now=NOW), policy)
    admission = Admission(cycle, BookedPlaces(cycle), explain_briefly)
    entry = next(entry for entry in cycle.entries if entry.job.key == "red/gang")
    request = RequestResolver(cycle.inventory, cycle.tree).resolve(entry.job)
    assert isinstance(request, Request)
    admission.collect_for(entry, request)
    return admission


def collected(*args: Any, **kwargs: Any) -> Collection:
    """The place that is reserved for the gang in its turn."""
    return turn_of_gang(*args, **kwargs).collections["red/gang"]


def admitted(found: Plan) -> list[str]:
    return [action.job for action in found.actions if isinstance(action, Admit)]


def evicted(found: Plan) -> list[tuple[str, str]]:
    return [(action.job, action.kind.value) for action in found.actions if isinstance(action, Evict)]


def began(at: float) -> Job:
    return replace(busy(), admitted_at=at)


def holds(node: str, since: float) -> Job:
    return make_job("also", placement=make_placement((node, [[0]])), admitted_at=since)


SINGLE = make_job("single", at=1_000.0)
SMALL = make_job("small", at=9_999.0, priority=9)
ENDS = busy(max_runtime_s=1_600)
LONG_AGO = replace(busy(), admitted_at=-90_000.0)
NOTHING = "There is no latest start, because the end of red/busy is not known. A maxRuntime there would give one."
REQUEUED = replace(GANG, requeued_at=9_000.0)


@pytest.mark.parametrize(
    ("jobs", "policy", "want"),
    [
        pytest.param([GANG, SMALL], POLICY, [], id="what is free is kept, also from a higher priority"),
        pytest.param([REQUEUED, SMALL], POLICY, ["red/small"], id="not yet after it ran"),
        pytest.param([replace(GANG, submitted_at=5_001.0), SMALL], POLICY, ["red/small"], id="not a second too early"),
        pytest.param([GANG, SMALL], Policy(collect_after_s=0), ["red/small"], id="never, where that is set"),
        pytest.param([GANG, replace(SMALL, max_runtime_s=600)], POLICY, ["red/small"], id="who must end in time goes"),
        pytest.param([GANG, replace(SMALL, max_runtime_s=601)], POLICY, [], id="who may run a second longer does not"),
        pytest.param([GANG, replace(SMALL, expected_runtime_s=60)], POLICY, [], id="nor who only hopes to end"),
    ],
)
def test_beside_a_reserved_place_starts(jobs: list[Job], policy: Policy, want: list[str]) -> None:
    assert admitted(plan(ENDS, *jobs, policy=policy)) == want


@pytest.mark.parametrize("waited_since", [1_000.0, 9_000.0], ids=["too long", "not too long"])
@pytest.mark.parametrize("max_runtime_s", [1_600, None], ids=["ends", "without end"])
@pytest.mark.parametrize("policy", [POLICY, replace(POLICY, tenure_s=8_000)], ids=["", "tenure"])
def test_a_holder_whose_queue_was_deleted_is_counted(
    policy: Policy, max_runtime_s: int | None, waited_since: float
) -> None:
    """Its claim was made under another queue."""
    gang = replace(GANG, submitted_at=waited_since)
    found = plan(busy(queue="", max_runtime_s=max_runtime_s), gang, policy=policy)
    assert found.actions == ()
    assert (found.verdicts["red/gang"].starts_by is not None) == (max_runtime_s is not None)


TENURE = replace(POLICY, tenure_s=8_000)


@pytest.mark.parametrize(
    ("holder", "policy", "starts_by", "likely_at", "basis"),
    [
        pytest.param(ENDS, POLICY, 10_600.0, 10_600.0, "", id="its maxRuntime ends it"),
        pytest.param(busy(max_runtime_s=90_000), POLICY, 99_000.0, 11_400.0, "", id="however late"),
        pytest.param(busy(max_runtime_s=90_000), TENURE, 17_000.0, 11_400.0, "", id="unless a tenure does"),
        pytest.param(busy(), TENURE, 17_000.0, 11_400.0, "", id="for whoever may run without end as well"),
        pytest.param(busy(preemptible=False), TENURE, None, 11_400.0, NOTHING, id="not where it cannot be evicted"),
        pytest.param(busy(), POLICY, None, 11_400.0, NOTHING, id="nothing does"),
        pytest.param(busy(expected_runtime_s=7_000), POLICY, None, 16_000.0, NOTHING, id="hope does not"),
        pytest.param(busy(expected_runtime_s=1_001), POLICY, None, 10_001.0, NOTHING, id="hope for a second more"),
        pytest.param(busy(expected_runtime_s=1_000), POLICY, None, 11_400.0, NOTHING, id="hope that is over"),
        pytest.param(
            began(9_920.0), POLICY, None, 10_800.0, NOTHING, id="a young one is likely to run ten minutes more"
        ),
        pytest.param(began(6_000.0), POLICY, None, 14_400.0, NOTHING, id="an older one for as long as it has run"),
    ],
)
def test_an_overdue_job_starts_when_the_holders_of_its_place_have_left(
    holder: Job, policy: Policy, starts_by: float | None, likely_at: float, basis: str
) -> None:
    verdict = plan(holder, GANG, policy=policy).verdicts["red/gang"]

    assert (verdict.starts_by, verdict.starts_by_basis) == (starts_by, basis)
    assert collected([holder, GANG], policy).reservation.starts_at == likely_at


@pytest.mark.parametrize(
    ("holders", "waits_since", "policy", "node"),
    [
        pytest.param([began(1.0)], 1_000.0, POLICY, "n1", id="a holder ran for less than twice the patience"),
        pytest.param([began(0.0)], 1_000.0, POLICY, None, id="not if it ran for as long"),
        pytest.param([began(0.0)], -30_004.0, POLICY, "n1", id="or for less than a quarter of the wait"),
        pytest.param([began(0.0)], -30_000.0, POLICY, None, id="not if it ran for as long as that"),
        pytest.param([replace(LONG_AGO, max_runtime_s=200_000)], 1_000.0, POLICY, "n1", id="a maxRuntime ends it"),
        pytest.param([LONG_AGO], 1_000.0, replace(POLICY, tenure_s=200_000), "n1", id="or a tenure limit"),
        pytest.param([replace(LONG_AGO, expected_runtime_s=101_000)], 1_000.0, POLICY, None, id="but no hope"),
        pytest.param([LONG_AGO, holds("n2", 9_000.0)], 1_000.0, POLICY, "n2", id="elsewhere no holder ran for long"),
        pytest.param([began(8_000.0), holds("n2", 9_000.0)], 1_000.0, POLICY, "n1", id="the oldest of these first"),
        pytest.param([began(9_000.0), holds("n2", 8_000.0)], 1_000.0, POLICY, "n2", id="wherever it is"),
    ],
)
def test_gpus_are_reserved_for_a_gang_where(
    holders: list[Job], waits_since: float, policy: Policy, node: str | None
) -> None:
    nodes = [NODE, make_node("n2", gpus=2)] if len(holders) > 1 else [NODE]
    queues = [make_queue("red", guaranteed=4), BLUE]
    admission = turn_of_gang([*holders, replace(GANG, submitted_at=waits_since)], policy, nodes, queues)

    reserved = [one.reservation.allocation.nodes[0].row for one in admission.collections.values()]
    assert [nodes[row].name for row in reserved] == ([] if node is None else [node])


def test_a_place_is_given_up_when_its_holder_has_run_for_long() -> None:
    """Until then nothing is checked again but when it is likely to end."""
    jobs = [replace(began(100.0), expected_runtime_s=90_000), GANG]
    snapshot = make_snapshot(nodes=[NODE], queues=[RED, BLUE], jobs=jobs, now=NOW)

    assert decide(snapshot, POLICY).until == 10_100.0


def on(name: str, node: str, *columns: int, ends_in_s: int, likely_in_s: int | None = None) -> Job:
    return make_job(
        name,
        gpus=len(columns),
        placement=make_placement((node, [list(columns)])),
        admitted_at=NOW - 1_000,
        max_runtime_s=1_000 + ends_in_s,
        expected_runtime_s=None if likely_in_s is None else 1_000 + likely_in_s,
    )


@pytest.mark.parametrize(
    ("holders", "gpus", "limit", "at"),
    [
        pytest.param(
            [on("a", "n1", 0, ends_in_s=300), on("b", "n1", 1, ends_in_s=100), on("c", "n1", 2, ends_in_s=200)],
            3,
            None,
            NOW + 200,
            id="when as many have left as are in the way",
        ),
        pytest.param(
            [on("a", "n1", 0, ends_in_s=100), on("b", "n1", 1, ends_in_s=200), on("c", "n1", 2, ends_in_s=300)],
            2,
            None,
            NOW + 100,
            id="when the first has, if that is enough",
        ),
        pytest.param(
            [on("a", "n1", 0, ends_in_s=100), on("late", "n2", 0, 1, 2, ends_in_s=900)],
            4,
            4,
            NOW + 900,
            id="when quota is given back that is held elsewhere",
        ),
    ],
)
def test_the_place_is_likely_to_be_free(holders: list[Job], gpus: int, limit: int | None, at: float) -> None:
    queues = [make_queue("red", guaranteed=4, limit=limit), BLUE]
    nodes = [make_node("n1", gpus=4), make_node("n2", gpus=3)]
    waits = replace(GANG, gpu=replace(GANG.gpu, count=gpus), excluded_nodes=frozenset({"n2"}))
    found = collected([*holders, waits], nodes=nodes, queues=queues)

    assert (found.reservation.starts_at, found.bound.at) == (at, at)


def test_the_place_is_likely_to_be_free_before_those_in_the_way_have_to_end() -> None:
    holders = [
        on("a", "n1", 0, ends_in_s=900, likely_in_s=100),
        on("b", "n1", 1, ends_in_s=950, likely_in_s=200),
    ]
    found = collected([*holders, GANG], nodes=[make_node("n1", gpus=3)])

    assert (found.reservation.starts_at, found.bound.at) == (NOW + 100, NOW + 900)


def test_a_share_is_likely_to_be_free_beside_another_one() -> None:
    half = make_placement(("n1", [[0]]), milli=500)
    stays, goes = (
        make_job(name, milli=500, placement=half, admitted_at=NOW - 1_000, max_runtime_s=longest, expected_runtime_s=s)
        for name, longest, s in (("stays", 90_000, None), ("goes", 2_000, 1_300))
    )
    waits = make_job("gang", milli=500, at=1_000.0)
    nodes = [make_node("n1", gpus=1)]
    found = collected([stays, goes, waits], nodes=nodes)

    assert (found.reservation.starts_at, found.bound.at) == (NOW + 300, NOW + 1_000)


def test_of_two_jobs_that_end_at_once_the_first_by_key_makes_room() -> None:
    holders = [on("a", "n1", 0, ends_in_s=100), on("b", "n2", 0, ends_in_s=100)]
    counted = Accounting.of([make_node("n1", gpus=1), make_node("n2", gpus=1)], [RED], [*holders, SMALL])
    tenures = Tenures(EvictionRules(counted.tree, POLICY, Moment(NOW)))
    request = RequestResolver(counted.inventory, counted.tree).resolve(SMALL)
    assert isinstance(request, Request)
    occupancy = Occupancy(counted.ledger, counted.usage, BestFit())

    for given in (holders, holders[::-1]):
        running = RunningJobs({job.key: job for job in given}, counted.allocations, counted.tree)
        held = holders_of(request, tenures, running.holders, np.arange(2))
        found = collect(occupancy, SMALL, request, held, tenures, of_quota=False)
        assert found is not None
        assert [node.row for node in found.reservation.allocation.nodes] == [0]


def test_a_job_starts_with_the_ending_that_gives_it_enough() -> None:
    holders = [on("a", "n1", 0, ends_in_s=100), on("b", "n1", 1, ends_in_s=200)]

    assert [plan(*holders, waits).verdicts[waits.key].starts_by for waits in (GANG, SINGLE)] == [NOW + 200, NOW + 100]


def test_the_likely_end_of_a_holder_is_checked_again_as_it_ages() -> None:
    holder = busy(max_runtime_s=90_000)
    counted = Accounting.of([make_node("n1", gpus=1)], [RED], [holder, SMALL])
    moment = Moment(NOW)
    tenures = Tenures(EvictionRules(counted.tree, POLICY, moment))
    request = RequestResolver(counted.inventory, counted.tree).resolve(SMALL)
    assert isinstance(request, Request)
    running = RunningJobs({holder.key: holder}, counted.allocations, counted.tree)
    held = holders_of(request, tenures, running.holders, np.arange(1))
    moment.until = np.inf
    collect(Occupancy(counted.ledger, counted.usage, BestFit()), SMALL, request, held, tenures, of_quota=False)

    assert moment.until == 10_200.0


KEPT = Reservation("red/gang", 20_000.0, Allocation((), Charge(-1, "", ())))


@pytest.mark.parametrize(
    ("endless", "basis"),
    [
        pytest.param([], "", id="nothing else"),
        pytest.param(
            ["a/x", "a/y", "a/z"],
            "There is no latest start, because the end of a/x, a/y, a/z is not known. A maxRuntime there would give"
            " one.",
            id="three without end are named",
        ),
        pytest.param(
            ["a/w", "a/x", "a/y", "a/z"],
            "There is no latest start, because the end of a/w, a/x, a/y and others is not known."
            " A maxRuntime there would give one.",
            id="of more the first three",
        ),
    ],
)
def test_the_bound_depends_on(endless: list[str], basis: str) -> None:
    assert basis_without(endless) == basis


def test_a_refusal_says_what_is_reserved() -> None:
    refusal = Refusal(reason=Reason.WAITING_FOR_GPUS, message="No room.")

    assert Collection(KEPT, StartBound(30_000.0)).explain(refusal) == Refusal(
        reason=Reason.WAITING_FOR_GPUS,
        message="No room. It has waited longest, so GPUs are reserved for it.",
    )
    assert "quota is reserved" in Collection(KEPT, StartBound(30_000.0), of_quota=True).explain(refusal).message


def test_the_jobs_message_says_that_gpus_are_reserved() -> None:
    message = plan(ENDS, GANG).verdicts["red/gang"].message

    assert message.endswith(" It has waited longest, so GPUs are reserved for it.")


@pytest.mark.parametrize(
    ("holder", "blue", "policy", "want"),
    [
        pytest.param(LONG_AGO, 0, POLICY, [], id="nobody inside the guarantee of its own queue, however long"),
        pytest.param(LONG_AGO, 0, TENURE, [("red/busy", "Collected")], id="unless there is a tenure, which is over"),
        pytest.param(replace(LONG_AGO, admitted_at=2_001.0), 0, TENURE, [], id="or not yet over"),
        pytest.param(replace(LONG_AGO, priority=9), 0, TENURE, [("red/busy", "Collected")], id="whatever its priority"),
        pytest.param(replace(LONG_AGO, queue="blue"), 1, POLICY, [], id="nor inside that of another"),
        pytest.param(replace(LONG_AGO, queue="blue"), 1, TENURE, [], id="who has to borrow evicts nobody there"),
    ],
)
def test_for_an_overdue_job_these_may_leave(
    holder: Job, blue: int, policy: Policy, want: list[tuple[str, str]]
) -> None:
    quotas = make_queue("red", guaranteed=1 if blue else 2).quotas

    assert evicted(plan(holder, GANG, blue=blue, policy=policy, quotas=quotas)) == want


@pytest.mark.parametrize(
    ("max_runtime_s", "guaranteed", "want"),
    [
        pytest.param(None, 2, [("blue/busy", "Collected")], id="without an end to its run"),
        pytest.param(1_600, 2, [], id="but not if it will end"),
        pytest.param(None, 1, [], id="but not for a job that has to borrow itself"),
    ],
)
def test_a_borrower_leaves_for_a_job_whose_guarantee_others_use(
    max_runtime_s: int | None, guaranteed: int, want: list[tuple[str, str]]
) -> None:
    rightful = make_job("rightful", placement=make_placement(("n1", [[1]])), admitted_at=9_000.0)
    queues = [make_queue("red", guaranteed=guaranteed), BLUE]
    jobs = [rightful, busy("blue", max_runtime_s=max_runtime_s), GANG]
    found = schedule(make_snapshot(nodes=[make_node("n1", gpus=3)], queues=queues, jobs=jobs, now=NOW), POLICY)

    assert evicted(found) == want


@pytest.mark.parametrize(
    ("at", "want"),
    [
        pytest.param(2_000.0, [("red/lent", "Collected")], id="before the jobs that the guarantee covers now"),
        pytest.param(0.0, [], id="after them, so that it would borrow itself"),
    ],
)
def test_a_borrower_leaves_for_a_job_of_its_queue_that_came(at: float, want: list[tuple[str, str]]) -> None:
    wide = [
        make_job(name, placement=make_placement(("n1", [[gpu]])), at=at + gpu, admitted_at=9_000.0)
        for gpu, name in enumerate(("covered", "also", "lent"))
    ]
    queues = [RED, make_queue("blue", guaranteed=2)]
    nodes = [make_node("n1", gpus=4)]
    found = schedule(make_snapshot(nodes=nodes, queues=queues, jobs=[*wide, GANG], now=NOW), POLICY)

    assert evicted(found) == want


def test_only_quota_is_reserved_if_only_quota_beyond_a_guarantee_is_missing() -> None:
    one = make_queue("red", guaranteed=1, limit=2).quotas
    found = plan(ENDS, GANG, SMALL, make_job("guest", queue="blue", at=9_999.0), quotas=one, blue=1)

    assert admitted(found) == ["blue/guest"]
    assert "quota is reserved for it" in found.verdicts["red/gang"].message


def test_a_job_that_has_to_borrow_delays_no_job_inside_a_guarantee() -> None:
    one = make_queue("red", guaranteed=1).quotas
    guest = make_job("guest", queue="blue", at=9_999.0)

    assert admitted(plan(ENDS, GANG, guest, quotas=one, blue=1)) == ["blue/guest"]
    assert admitted(plan(ENDS, GANG, guest, quotas=one, blue=0)) == []
