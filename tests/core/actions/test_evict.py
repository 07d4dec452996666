"""Preempt and reclaim: whole stories, played until nothing happens any more, and the actions compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cotenant.core.actions import evict
from cotenant.core.actions.evict import VictimSet, cheapest_set, departures, find_victims, node_by_node
from cotenant.core.allocation.allocation import Allocation, allocation_of
from cotenant.core.allocation.eviction_candidate import CandidateList, EvictionCandidate
from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.placements import without_ranks
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.outcome import CycleOutcome
from cotenant.core.cycle.search import PlacementResult, fits
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.gpus.ledger import NodeAllocation
from cotenant.core.model.measure import Amounts
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import GpuRequest, Job, Node, Quota, TenantQueue
from cotenant.core.model.plan import Admit, Evict, EvictionKind, Reason, Resize
from cotenant.core.placement import BestFit
from cotenant.core.quota.usage import Charge
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.accounting import Accounting
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot


def steps(toy: ToyCluster) -> list[tuple[str, str]]:
    words = {Admit: "admit", Resize: "resize"}
    return [
        (action.kind.value if isinstance(action, Evict) else words[type(action)], action.job) for action in toy.history
    ]


def running(name: str, column: int | list[list[int]], *, at: float = 0.0, node: str = "n1", **changes: object) -> Job:
    workers = [[column]] if isinstance(column, int) else column
    job = make_job(name, placement=make_placement((node, workers)), **changes)  # type: ignore[arg-type]
    return replace(job, admitted_at=at, workers_min=changes.get("workers_min", job.workers_min))  # type: ignore[arg-type]


def test_higher_priority_preempts_inside_its_queue_and_the_victim_comes_back_when_it_ends() -> None:
    toy = ToyCluster(
        [make_node("n1", gpus=1)], [make_queue("red", guaranteed=1)], [make_job("low", at=1), make_job("other", at=2)]
    )
    toy.settle()
    toy.observe(make_job("high", at=3, priority=9))
    toy.settle()
    toy.end("red/high")
    toy.settle()

    assert steps(toy) == [
        ("admit", "red/low"),
        ("Preempted", "red/low"),
        ("admit", "red/high"),
        ("admit", "red/low"),
    ]


def test_an_owner_takes_back_what_was_lent_and_no_more() -> None:
    queues = [make_queue("red", guaranteed=2), make_queue("blue", guaranteed=2)]
    borrowers = [make_job(f"b{index}", queue="red", at=index) for index in range(4)]
    toy = ToyCluster([make_node("n1", gpus=4)], queues, borrowers)
    toy.settle()
    for index in range(3):
        toy.observe(make_job(f"own{index}", queue="blue", at=10 + index))
    plan = toy.settle()

    reclaimed = [action.job for action in toy.history if isinstance(action, Evict)]
    assert len(reclaimed) == 2
    assert sorted(key for key, job in toy.jobs.items() if job.queue == "blue" and job.placement) == [
        "blue/own0",
        "blue/own1",
    ]
    assert plan.verdicts["blue/own2"].reason == Reason.WAITING_FOR_GPUS


def test_the_cheapest_node_is_cleared_for_a_gang_that_needs_one() -> None:
    nodes = [make_node("n1"), make_node("n2")]
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=4)]
    dear = replace(running("dear", 0, node="n1", at=0.0), last_checkpoint_at=0.0)
    cheap = [
        replace(running(f"cheap{index}", index, node="n2", at=0.0), last_checkpoint_at=900.0) for index in range(2)
    ]
    fresh = replace(running("fresh", 1, node="n1", at=0.0), last_checkpoint_at=999.0)

    plan = schedule(
        make_snapshot(nodes=nodes, queues=queues, jobs=[dear, fresh, *cheap, make_job("pair", queue="blue", gpus=2)])
    )

    assert [action.job for action in plan.actions] == ["red/cheap0", "red/cheap1"]


def test_no_job_is_evicted_if_all_victims_together_do_not_suffice() -> None:
    nodes = [make_node("n1", gpus=2)]
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=2)]
    jobs = [running("a", 0), running("fixed", 1, preemptible=False), make_job("pair", queue="blue", gpus=2)]

    plan = schedule(make_snapshot(nodes=nodes, queues=queues, jobs=jobs))

    assert plan.actions == ()
    assert plan.verdicts["blue/pair"].reason == Reason.WAITING_FOR_GPUS


def test_gpus_that_could_not_be_taken_back_are_never_lent() -> None:
    queues = [make_queue("red", guaranteed=1), make_queue("blue", guaranteed=1)]
    jobs = [make_job("a", preemptible=False, at=1), make_job("b", preemptible=False, at=2)]

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=queues, jobs=jobs))

    assert [action.job for action in plan.actions] == ["red/a"]


def test_a_place_made_by_evictions_is_not_given_to_another_job() -> None:
    """The victim leaves late; an older job of a queue inside its guarantee arrives meanwhile and still has to wait."""
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=1), make_queue("green", guaranteed=1)]
    held = [running("guest", 0), running("fixed", 1, preemptible=False)]
    toy = ToyCluster([make_node("n1", gpus=2)], queues, held)
    toy.observe(make_job("owner", queue="blue", at=9))
    toy.cycle()
    toy.observe(make_job("late", queue="green", at=2))
    plan = toy.cycle()
    toy.finish_evictions()
    toy.settle()

    assert plan.verdicts["blue/owner"].reason == Reason.WAITING_FOR_EVICTION
    assert toy.jobs["blue/owner"].placement is not None
    assert toy.jobs["green/late"].placement is None


def test_a_gang_that_lost_a_node_is_requeued_whole() -> None:
    nodes = [make_node("n1", gpus=1), make_node("n2", gpus=1), make_node("n3", gpus=2)]
    gang = make_job("gang", workers=2, placement=make_placement(("n1", [[0]]), ("gone", [[0]])))
    toy = ToyCluster(nodes, [make_queue("red", guaranteed=2)], [replace(gang, admitted_at=0.0)])
    toy.settle()

    assert steps(toy) == [("NodeLost", "red/gang"), ("admit", "red/gang")]
    assert toy.jobs["red/gang"].placement == make_placement(("n3", [[0], [1]]))


def test_a_borrower_leaves_gpus_that_another_queue_does_not_lend() -> None:
    """With blue's GPU taken, two of four are free, but they are the owner's, who lends none. Red has a claim to another
    one, of a class that blue does not even hold: what counts is how many are left."""
    nodes = [make_node("a", gpus=1, gpu_class="A100"), make_node("h", gpus=3, gpu_class="H100")]
    queues = [make_queue("owner", guaranteed=2, lendable=0), make_queue("red", guaranteed=2)]
    borrower = make_job("b", queue="blue", classes=("A100",))
    toy = ToyCluster(nodes, [*queues, make_queue("blue", guaranteed=0)], [borrower])
    toy.cycle()
    toy.observe(make_job("one", queue="red", classes=("H100",), at=1.0))
    toy.observe(make_job("two", queue="red", classes=("H100",), at=2.0))

    verdicts = toy.settle().verdicts

    assert [action.job for action in toy.history if isinstance(action, Evict)] == ["blue/b"]
    assert sorted(key for key, job in toy.jobs.items() if job.placement) == ["red/one", "red/two"]
    assert {key: verdict.reason for key, verdict in verdicts.items()} == {"blue/b": Reason.WAITING_FOR_QUOTA}


def test_surplus_of_a_borrower_yields_to_a_queue_outside_its_guarantee() -> None:
    """Only surplus leaves and no job is reclaimed, so red need not be inside its guarantee."""
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=1)]
    placement = make_placement(("n1", [[0], [1]]))
    elastic = make_job("elastic", queue="blue", workers=(1, 2), placement=placement, admitted_at=0.0)

    plan = schedule(make_snapshot(nodes=[make_node("n1")], queues=queues, jobs=[elastic, make_job("new")]))

    assert plan.actions == (
        Resize(
            job="blue/elastic",
            placement=make_placement(("n1", [[0]])),
            message="Gives back 1 surplus worker so that red/new can start.",
        ),
    )
    assert plan.nominations == {"red/new": make_placement(("n1", [[1]]))}
    assert plan.verdicts["red/new"].reason == Reason.WAITING_FOR_EVICTION


def test_nothing_is_reclaimed_for_a_place_that_the_guarantee_does_not_name() -> None:
    """Red is guaranteed an H100, but the H100 that is free has no CPU beside it. The A100 is borrowed, not red's."""
    nodes = [make_node("a", gpus=1, gpu_class="A100"), make_node("h", gpus=2, cpu_milli=8_000)]
    red = TenantQueue(
        name="red",
        namespaces=frozenset({"red"}),
        quotas=(Quota(gpu_class="H100", guaranteed=1_000), Quota(gpu_class="A100")),
    )
    queues = [red, make_queue("blue", guaranteed=0), make_queue("green", guaranteed=1, gpu_class="H100")]
    borrows = make_job("borrows", queue="blue", placement=make_placement(("a", [[0]])), admitted_at=0.0)
    owns = make_job("owns", queue="green", cpu_milli=8_000, placement=make_placement(("h", [[0]])), admitted_at=0.0)

    plan = schedule(make_snapshot(nodes=nodes, queues=queues, jobs=[borrows, owns, make_job("asks", cpu_milli=1_000)]))

    assert plan.actions == ()
    assert {key: verdict.reason for key, verdict in plan.verdicts.items()} == {"red/asks": Reason.WAITING_FOR_GPUS}


def candidate(name: str, row: int, lost_work: int, milli: int) -> EvictionCandidate:
    node = NodeAllocation(row, (0,), (0,), (milli,), cpu_milli=0, host_mib=0, tenant=0)
    allocation = Allocation((node,), Charge(0, "", ()))
    return EvictionCandidate(make_job(name), allocation, EvictionKind.RECLAIMED, lost_work)


def test_the_node_that_loses_least_work_per_milli_gpu_comes_first() -> None:
    """Row 1 loses 0.015 per milli-GPU, row 0 loses 0.02: more in all is less for what it gives."""
    small, large, other = candidate("a", 0, 20, 1_000), candidate("b", 1, 30, 1_000), candidate("c", 1, 30, 3_000)

    assert node_by_node([small, large, other]) == [large, other, small]


def test_of_nodes_that_lose_the_same_the_larger_comes_first() -> None:
    saved, worked = candidate("a", 0, 0, 1_000), candidate("b", 1, 2, 2_000)

    assert node_by_node([worked, saved]) == [saved, worked]
    assert node_by_node([candidate("c", 0, 1, 1_000), worked])[0] is worked


def test_the_cost_of_a_node_is_compared_in_whole_steps_and_is_highest_without_gpus() -> None:
    """10 and 10.25 are the same, so the larger gives its GPUs first."""
    assert [one.job.key for one in node_by_node([candidate("a", 0, 10, 1_000), candidate("b", 1, 41, 4_000)])] == [
        "red/b",
        "red/a",
    ]
    assert [one.job.key for one in node_by_node([candidate("cpu", 0, 5, 0), candidate("gpu", 1, 3_000, 1_000)])] == [
        "red/gpu",
        "red/cpu",
    ]


def test_the_node_is_cleared_whose_jobs_lose_least_together() -> None:
    """No job of the other node loses as much as the dearest one of this node."""
    lost_s = {"low-n1": 1, "high-n1": 61, "mid0-n2": 60, "mid1-n2": 60}
    held = [
        replace(running(name, index % 2, node=name[-2:]), last_checkpoint_at=1_000.0 - lost)
        for index, (name, lost) in enumerate(lost_s.items())
    ]
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=4)]
    nodes = [make_node("n1"), make_node("n2")]

    plan = schedule(make_snapshot(nodes=nodes, queues=queues, jobs=[*held, make_job("pair", queue="blue", gpus=2)]))

    assert [action.job for action in plan.actions] == ["red/high-n1", "red/low-n1"]


def test_a_job_that_is_not_preemptible_waits_until_its_guarantee_is_free() -> None:
    """GPUs are free on another node, but the job of lower priority uses the guarantee."""
    toy = ToyCluster([make_node("n1", gpus=2), make_node("n2", gpus=1)], [make_queue("red", guaranteed=1)])
    toy.observe(replace(make_job("low", placement=make_placement(("n1", [[0]]))), admitted_at=0.0))
    toy.observe(make_job("new", priority=2, preemptible=False))

    plan = toy.cycle()
    assert [(type(action), action.job) for action in plan.actions] == [(Evict, "red/low")]
    assert list(plan.nominations) == ["red/new"]

    toy.finish_evictions()
    assert (Admit, "red/new") in [(type(action), action.job) for action in toy.cycle().actions]


def test_a_victim_whose_place_is_not_needed_stays() -> None:
    """The cheapest jobs do not suffice. With a dearer one there is room, and some of the cheaper ones can stay."""

    def share(name: str, column: int, milli: int, saved_at: float) -> Job:
        place = make_placement(("n1", [[column]]), milli=milli)
        return make_job(name, milli=milli, placement=place, admitted_at=0.0, last_checkpoint_at=saved_at)

    held = [
        share("beside", 0, 400, 1_000.0),
        share("elsewhere", 1, 500, 990.0),
        share("leaves", 0, 600, 900.0),
        share("dear", 1, 500, 0.0),
    ]
    comes = make_job("comes", milli=600, priority=1)
    nodes, queues = [make_node("n1", gpus=2)], [make_queue("red", guaranteed=2)]

    plan = schedule(make_snapshot(nodes=nodes, queues=queues, jobs=[*held, comes]))

    assert [action.job for action in plan.actions] == ["red/leaves"]
    assert plan.nominations == {"red/comes": make_placement(("n1", [[0]]), milli=600)}


@pytest.mark.parametrize(
    ("kind", "level", "message"),
    [
        (
            EvictionKind.PREEMPTED,
            2,
            "Makes room for blue/comes, which has had less GPU time and has waited for long: queue blue orders its"
            " jobs by GPU time (fairShare.order).",
        ),
        (
            EvictionKind.PREEMPTED,
            0,
            "Makes room for blue/comes, which has priority 7 above 3 in queue blue.",
        ),
        (
            EvictionKind.COLLECTED,
            0,
            "Makes room for blue/comes, which has waited too long: this job used borrowed GPUs and has no maxRuntime,"
            " or it exceeded the tenure limit or the limit for borrowed GPUs.",
        ),
        (
            EvictionKind.OVERRAN,
            0,
            "Makes room for blue/comes: this job started on GPUs that are reserved for another one, and has run"
            " longer than it declared (expectedRuntime, maxRuntime).",
        ),
        (
            EvictionKind.RECLAIMED,
            0,
            "Queue red had borrowed these 1.5 GPU; queue blue needs them back for blue/comes.",
        ),
    ],
)
def test_an_eviction_says_why(kind: EvictionKind, level: int, message: str) -> None:
    comes = make_job("comes", queue="blue", priority=7)
    held = Allocation((), Charge(0, "", ((("H100", ""), Amounts(1_500)),)))
    victim = EvictionCandidate(make_job("leaves", priority=3), held, kind, 0, level=level)
    result = PlacementResult(make_placement(("n1", [[0]])), held)

    found = departures(VictimSet((victim,), result), comes, {})

    assert found.evictions == (Evict(job="red/leaves", kind=kind, in_favour_of="blue/comes", message=message),)
    assert (found.resizes, found.shrunk) == ((), {})


def test_a_shrink_includes_workers_asked_to_leave_before_and_an_eviction_replaces_it() -> None:
    place = make_placement(("n1", [[0], [1], [2]]))
    shrinks, whole = (make_job(name, workers=(1, 3), placement=place) for name in ("shrinks", "whole"))
    held = Allocation((), Charge(0, "", ()))
    victims = [
        EvictionCandidate(shrinks, held, EvictionKind.RECLAIMED, 0, range(1, 2)),
        EvictionCandidate(whole, held, EvictionKind.RECLAIMED, 0, range(2, 3)),
        EvictionCandidate(whole, held, EvictionKind.RECLAIMED, 0),
    ]
    comes = make_job("comes", queue="blue")

    found = departures(VictimSet(tuple(victims), PlacementResult(place, held)), comes, {"red/shrinks": frozenset({2})})

    assert [eviction.job for eviction in found.evictions] == ["red/whole"]
    assert [(one.job, one.placement) for one in found.resizes] == [
        ("red/shrinks", make_placement(("n1", [[0]]))),
    ]
    assert found.shrunk == {"red/shrinks": frozenset({1, 2}), "red/whole": frozenset({2})}


def test_the_cheapest_sufficient_victims_leave_even_if_no_node_is_cleared() -> None:
    """Two cheap jobs on two nodes lose 140 GPU-seconds, the two of the cheapest node 142."""
    nodes = [make_node(name) for name in ("n1", "n2", "n3")]
    queues = [make_queue("red", guaranteed=0), make_queue("blue", guaranteed=6)]
    saved_at = {"cheap-n1": 990, "dear-n1": 0, "cheap-n2": 990, "dear-n2": 0, "near1-n3": 989, "near2-n3": 989}
    held = [
        replace(running(name, index % 2, node=name[-2:]), last_checkpoint_at=float(at))
        for index, (name, at) in enumerate(saved_at.items())
    ]

    plan = schedule(make_snapshot(nodes=nodes, queues=queues, jobs=[*held, make_job("gang", queue="blue", workers=2)]))

    assert [action.job for action in plan.actions] == ["red/cheap-n1", "red/cheap-n2"]
    assert plan.nominations == {"blue/gang": make_placement(("n1", [[0]]), ("n2", [[0]]))}


def candidate_of(job: Job, lost_work: int, *, of: Accounting, ranks: range | None = None) -> EvictionCandidate:
    assert job.placement is not None
    held = (
        job.placement if ranks is None else without_ranks(job.placement, set(range(job.placement.workers)) - {*ranks})
    )
    held = without_ranks(held, range(job.workers_min, job.placement.workers)) if ranks is None else held
    return EvictionCandidate(
        job, allocation_of(job, held, of.inventory, of.tree), EvictionKind.PREEMPTED, lost_work, ranks
    )


def chosen(
    nodes: list[Node], jobs: list[tuple[Job, int]], surplus: list[tuple[Job, range, int]], asks: Job
) -> list[tuple[str, range | None]]:
    """Victims for a request, with what each candidate loses; the last GPUs first."""
    held = {job.key: job for job, _ in jobs} | {job.key: job for job, _, _ in surplus}
    counted = Accounting.of(nodes, [make_queue("red", guaranteed=16)], [*held.values(), asks])
    request = RequestResolver(counted.inventory, counted.tree).resolve(asks)
    assert isinstance(request, Request)
    ordered = CandidateList(
        [candidate_of(job, lost, of=counted, ranks=ranks) for job, ranks, lost in surplus],
        [candidate_of(job, lost, of=counted) for job, lost in jobs],
    )
    occupancy = Occupancy(counted.ledger, counted.usage, BestFit())
    found = find_victims(occupancy, request, ordered, CycleOutcome(), Moment(0.0))
    return [] if found is None else [(victim.job.key.removeprefix("red/"), victim.ranks) for victim in found.victims]


ELASTIC = make_job("elastic", workers=(1, 2), placement=make_placement(("n1", [[0], [1]])))


def test_surplus_workers_are_tried_first_and_then_all_jobs() -> None:
    """The surplus and the cheapest job make room on n1 for more work than the other job on n2 does."""
    nodes = [make_node("n1", gpus=3), make_node("n2", gpus=2)]
    jobs = [(running("cheap", 2), 10), (running("pair", [[0, 1]], node="n2", gpus=2), 15)]

    assert chosen(nodes, jobs, [(ELASTIC, range(1, 2), 100)], make_job("asks", gpus=2)) == [("pair", None)]
    assert chosen(nodes, jobs, [(ELASTIC, range(1, 2), 100)], make_job("asks")) == [("elastic", range(1, 2))]


@pytest.mark.parametrize(("few", "trials"), [(1_024, 1), (0, 4)], ids=["few candidates", "many"])
def test_no_other_order_is_tried_if_all_candidates_together_do_not_suffice(
    few: int, trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few candidates are tried all together first, many in doubling steps: 1, 2, 4 and 5."""
    stays, asks = running("stays", 5), make_job("asks", gpus=6)
    held = [running(f"held{column}", column) for column in range(5)]
    counted = Accounting.of([make_node("n1", gpus=6)], [make_queue("red", guaranteed=16)], [*held, stays, asks])
    request = RequestResolver(counted.inventory, counted.tree).resolve(asks)
    assert isinstance(request, Request)
    tried: list[Request] = []

    def noted(occupancy: Occupancy, request: Request) -> bool:
        tried.append(request)
        return fits(occupancy, request)

    def orders() -> Iterator[Iterator[EvictionCandidate]]:
        yield iter([candidate_of(job, 1, of=counted) for job in held])
        pytest.fail("the candidates are the same in every order")

    monkeypatch.setattr(evict, "_FEW", few)
    monkeypatch.setattr(evict, "fits", noted)
    occupancy = Occupancy(counted.ledger, counted.usage, BestFit())

    assert cheapest_set(occupancy, request, orders(), Moment(0.0), most=5) is None
    assert len(tried) == trials


@pytest.mark.parametrize("few", [0, 1_024], ids=["in doubling steps", "all together first"])
def test_galloping_and_trying_all_candidates_find_the_same_shortest_prefix(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evict, "_FEW", few)
    jobs = [(running(f"held{column}", column), column) for column in range(6)]

    assert sorted(chosen([make_node("n1", gpus=6)], jobs, [], make_job("asks", gpus=3))) == [
        (f"held{column}", None) for column in range(3)
    ]


def test_for_one_gpu_victims_are_tried_by_lost_work_and_not_node_by_node() -> None:
    """Two shares of a GPU go before a whole one that loses less than both, because each of them loses less than it."""
    share = {"gpu": GpuRequest(memory_milli=500)}
    halves = [
        make_job(name, placement=make_placement(("n1", [[0]]), milli=500), admitted_at=0.0, **share)  # type: ignore[arg-type]
        for name in ("a", "b")
    ]
    nodes = [make_node("n1", gpus=1), make_node("n2", gpus=1), make_node("n3", gpus=2, cpu_milli=10)]
    jobs = [*((half, 10) for half in halves), (running("whole", 0, node="n2"), 15)]

    assert sorted(chosen(nodes[:2], jobs, [], make_job("one"))) == [("a", None), ("b", None)]
    assert chosen(nodes[:2], jobs, [], make_job("two", workers=2)) == [("whole", None), ("b", None), ("a", None)]


def test_the_surplus_of_an_evicted_job_never_stays() -> None:
    nodes = [make_node("n1", gpus=1), make_node("n2", gpus=2, cpu_milli=100)]
    wide = make_job("elastic", workers=(1, 2), placement=make_placement(("n1", [[0]]), ("n2", [[0]])), cpu_milli=10)
    asks = make_job("asks", cpu_milli=200)

    assert chosen(nodes, [(wide, 10)], [(wide, range(1, 2), 5)], asks) == [("elastic", None), ("elastic", range(1, 2))]


def test_the_cost_of_a_node_is_counted_per_milli_gpu_exactly() -> None:
    """999 for one GPU is less than 8,000 for eight."""
    candidates = [candidate("eight", 0, 8_000, 8_000), candidate("one", 1, 999, 1_000)]
    assert [found.job.key for found in node_by_node(candidates)] == ["red/one", "red/eight"]
