"""Lost GPUs and kept nominations: a gang leaves when a GPU of it is lost, and not when it is missing for a moment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.actions.nominations import is_free, kept_place
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.cycle.accounts import Accounts
from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import GpuRequest, Job, Node, Placement
from cotenant.core.model.plan import Admit, Evict, EvictionKind, Reason
from cotenant.core.placement import BestFit
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.snapshot.snapshot import Snapshot
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

NOW = 1_000.0
TRAINS = make_job("trains", workers=2, placement=make_placement(("n1", [[0], [1]])))
ELSEWHERE = make_job("elsewhere", placement=make_placement(("n2", [[0]])))


def unseen(node: Node, *columns: int, since: float) -> Node:
    gpus = [replace(gpu, healthy=False, missing_since=since) if gpu.index in columns else gpu for gpu in node.gpus]
    return replace(node, gpus=tuple(gpus))


def world(n1: Node | None, *jobs: Job, watched_since: float = 0.0) -> Snapshot:
    nodes = [node for node in (n1, make_node("n2")) if node is not None]
    return make_snapshot(
        nodes=nodes, queues=[make_queue("red", guaranteed=4)], jobs=list(jobs), now=NOW, watched_since=watched_since
    )


def evicted(snapshot: Snapshot) -> dict[str, str]:
    plan = schedule(snapshot)
    return {action.job: action.message for action in plan.actions if isinstance(action, Evict)}


@pytest.mark.parametrize(
    ("n1", "watched_since", "said"),
    [
        (make_node("n1"), 0.0, ""),
        (unseen(make_node("n1"), 1, since=NOW - 59), 0.0, ""),
        (unseen(make_node("n1"), 1, since=NOW - 60), 0.0, "Lost GPU GPU-n1-1, which node n1 does not list any more"),
        (make_node("n1", gpus=0), 0.0, "Lost GPU GPU-n1-0 of node n1"),
        (make_node("n1", gpus=0), NOW - 59, ""),
        (make_node("n1", gpus=0), NOW - 60, "Lost GPU GPU-n1-0 of node n1"),
        (replace(unseen(make_node("n1"), 0, 1, since=NOW), deleted=True), 0.0, "Lost node n1"),
        (None, 0.0, "Lost node n1"),
        (None, NOW - 10, ""),
    ],
    ids=[
        "all GPUs are there",
        "one is out of sight for less than a minute",
        "one is out of sight for a minute",
        "the GPUs are not known at all, and should be by now",
        "the GPUs are not known yet: the operator has just started",
        "the GPUs are not known a minute after the operator started",
        "the node has just been deleted",
        "the node is gone and forgotten",
        "the node is not known yet: the operator has just started",
    ],
)
def test_a_gang_is_requeued_once_something_it_holds_is_lost_and_not_before(
    n1: Node | None, watched_since: float, said: str
) -> None:
    want = {"red/trains": f"{said}; the job is requeued."} if said else {}
    assert evicted(world(n1, TRAINS, ELSEWHERE, watched_since=watched_since)) == want


def test_an_eviction_for_a_lost_gpu_says_so() -> None:
    (action,) = schedule(world(unseen(make_node("n1"), 0, since=0.0), TRAINS)).actions
    assert isinstance(action, Evict)
    assert (action.kind, action.in_favour_of) == (EvictionKind.NODE_LOST, None)


def test_a_gpu_that_no_node_lists_still_counts_for_the_queue_that_holds_it() -> None:
    queue = make_queue("red", guaranteed=2, limit=2)
    waits = make_job("waits")
    nodes = [unseen(make_node("n1"), 0, 1, since=NOW - 10), make_node("n2")]
    plan = schedule(make_snapshot(nodes=nodes, queues=[queue], jobs=[TRAINS, waits], now=NOW))
    assert plan.actions == ()
    assert list(plan.verdicts) == ["red/waits"]


def test_a_gpu_of_a_deleted_node_counts_for_the_queue_that_holds_it_while_its_job_leaves() -> None:
    gone = replace(unseen(make_node("n1"), 0, 1, since=NOW), ready=False, deleted=True)
    queue = make_queue("red", guaranteed=2, limit=2)
    waits, leaves = make_job("waits"), replace(TRAINS, evicting=True)
    plan = schedule(make_snapshot(nodes=[gone, make_node("n2")], queues=[queue], jobs=[leaves, waits], now=NOW))
    assert plan.actions == ()
    assert plan.verdicts["red/waits"].reason is Reason.WAITING_FOR_EVICTION


def test_a_gpu_that_no_node_lists_is_given_to_no_job() -> None:
    nodes = [unseen(make_node("n1"), 0, 1, since=NOW - 10)]
    plan = schedule(
        make_snapshot(nodes=nodes, queues=[make_queue("red", guaranteed=2)], jobs=[make_job("waits")], now=NOW)
    )
    assert plan.actions == ()


def test_a_new_leader_starts_nobody_before_it_sees_what_running_jobs_hold() -> None:
    queue = make_queue("red", guaranteed=2, limit=2)
    snapshot = make_snapshot(
        nodes=[make_node("n2")], queues=[queue], jobs=[TRAINS, make_job("waits")], now=NOW, watched_since=NOW - 10
    )
    plan = schedule(snapshot)
    assert plan.actions == ()
    assert (plan.verdicts["red/waits"].reason, plan.verdicts["red/waits"].message) == (
        Reason.NODES_NOT_READY,
        "The operator has just started and does not see node n1 yet, which a running job holds. No job starts until it"
        " does, or until 60 s have passed.",
    )


def test_nominated_places_stay_while_a_new_leader_observes() -> None:
    place = make_placement(("n2", [[0]]))
    snapshot = make_snapshot(
        nodes=[make_node("n2")],
        queues=[make_queue("red", guaranteed=4)],
        jobs=[TRAINS, make_job("waits")],
        now=NOW,
        watched_since=NOW - 10,
        nominations={"red/waits": place},
    )
    assert dict(schedule(snapshot).nominations) == {"red/waits": place}


def test_the_new_place_of_a_job_that_moves_is_kept_while_it_leaves_its_old_one() -> None:
    old, new = make_placement(("n1", [[0]])), make_placement(("n2", [[0]]))
    moves = make_job("moves", placement=old, admitted_at=0.0, evicting=True)

    plan = schedule(
        make_snapshot(
            nodes=[make_node("n1", gpus=1), make_node("n2", gpus=1)],
            queues=[make_queue("red", guaranteed=4)],
            jobs=[moves, make_job("waits")],
            nominations=(("red/moves", new),),
        )
    )

    assert plan.actions == ()
    assert plan.nominations == {"red/moves": new, "red/waits": old}


def test_the_new_place_of_a_job_that_moves_lapses_when_another_job_holds_it() -> None:
    old, new = make_placement(("n1", [[0]])), make_placement(("n2", [[0]]))
    moves = make_job("moves", placement=old, admitted_at=0.0, evicting=True)
    holds = make_job("holds", placement=new, admitted_at=0.0)

    plan = schedule(
        make_snapshot(
            nodes=[make_node("n1", gpus=1), make_node("n2", gpus=1)],
            queues=[make_queue("red", guaranteed=4)],
            jobs=[moves, holds],
            nominations=(("red/moves", new),),
        )
    )

    assert (plan.actions, plan.nominations) == ((), {})


RED = make_queue("red", guaranteed=4)


@pytest.mark.parametrize(
    "nominated_earlier", [("red/waits",), ()], ids=["of a job that the last leader had nominated", "of any other job"]
)
def test_a_place_that_is_found_only_after_evictions_but_is_free_already_is_taken_at_once(
    nominated_earlier: tuple[str, ...],
) -> None:
    """A share of 20 GiB costs half a GPU of 40 GiB, which the search counts, and a quarter of one of 80 GiB."""
    small, large = make_node("small", gpus=1, memory_mib=40_960), make_node("large", gpus=1)
    holds = make_job("holds", queue="blue", placement=make_placement(("small", [[0]]), memory_mib=40_960))
    leaves = make_job("leaves", milli=750, placement=make_placement(("large", [[0]]), milli=750), evicting=True)
    waits = make_job("waits", gpu=GpuRequest(memory_mib=20_480))
    snapshot = make_snapshot(
        nodes=[small, large],
        queues=[make_queue("red", limit=1), make_queue("blue", guaranteed=1)],
        jobs=[holds, leaves, waits],
        nominated_earlier=nominated_earlier,
    )

    (action,) = schedule(snapshot).actions

    assert isinstance(action, Admit)
    assert (action.job, action.placement.workers_on) == ("red/waits", (("large", 1),))


def accounts(*nodes: Node, running: tuple[Job, ...] = ()) -> Accounts:
    counted = Accounting.of(nodes, [RED], list(running))
    return Accounts(
        Occupancy(counted.ledger, counted.usage, BestFit()),
        RunningJobs(counted.running, counted.allocations, counted.tree),
    )


PLACE = make_placement(("n2", [[0]]))
WHOLE_HELD = make_job("held", placement=PLACE, admitted_at=0.0)
SHARE_HELD = make_job("held", milli=500, placement=make_placement(("n2", [[0]]), milli=500), admitted_at=0.0)


@pytest.mark.parametrize(
    ("held", "job", "place", "free"),
    [
        pytest.param((), make_job("waits"), PLACE, True, id="free"),
        pytest.param((replace(WHOLE_HELD, evicting=True),), make_job("waits"), PLACE, False, id="becoming free"),
        pytest.param((WHOLE_HELD,), make_job("waits"), PLACE, None, id="held by a job that stays"),
        pytest.param((SHARE_HELD,), make_job("waits"), PLACE, None, id="held in part, where all is wanted"),
        pytest.param(
            (SHARE_HELD,), make_job("waits", milli=500), make_placement(("n2", [[0]]), milli=500), True,
            id="held in part, where the rest is wanted",
        ),
        pytest.param((), make_job("waits"), make_placement(("lost", [[0]])), None, id="out of sight"),
        pytest.param((), make_job("waits", queue="gone"), PLACE, None, id="of a job that may not start"),
    ],
)  # fmt: skip
def test_a_nominated_place_becomes(held: tuple[Job, ...], job: Job, place: Placement, free: bool | None) -> None:
    """None: it lapses."""
    books = accounts(make_node("n2", gpus=1), running=held)
    resolved = RequestResolver(books.current.inventory, books.current.tree).resolve(job)
    kept = kept_place(books, job, resolved, place)
    assert (None if kept is None else (kept.placement, is_free(books.current, job, kept))) == (
        None if free is None else (place, free)
    )


def test_of_several_missing_nodes_the_first_by_name_is_named() -> None:
    jobs = [make_job(name, placement=make_placement((name, [[0]]))) for name in ("n3", "n1", "n4")]
    plan = schedule(world(None, *jobs, make_job("waits"), watched_since=NOW - 10))
    assert dict(plan.verdicts["red/waits"].evidence)["missing"] == "node n1"
