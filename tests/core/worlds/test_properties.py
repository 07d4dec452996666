"""Properties of every cluster: random trees, nodes and jobs, whole stories until nothing happens any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.model.objects import (
    MUCH_SCRATCH,
    GpuRequest,
    Job,
    Node,
    Quota,
    Sharing,
    Spread,
    TenantQueue,
    Topology,
    TopologyMode,
)
from cotenant.core.model.plan import Admit, Evict, EvictionKind, Resize
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from tests.core.worlds.recount import check_limits, check_nothing_is_overcommitted
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue

CLASSES = ("A100", "H100")
ZONES = ("east", "west")


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    return [
        replace(
            make_node(
                f"n{index}",
                gpus=draw(st.integers(1, 4)),
                gpu_class=draw(st.sampled_from(CLASSES)),
                memory_mib=draw(st.sampled_from((40_000, 81_559))),
                cpu_milli=draw(st.sampled_from((8_000, 64_000))),
            ),
            zone=draw(st.sampled_from(ZONES)),
            rack=draw(st.sampled_from(("r1", "r2"))),
            shared_by_queues=draw(st.booleans()),
            scratch_mib=draw(st.sampled_from((MUCH_SCRATCH, MUCH_SCRATCH, 100_000, 200_000))),
        )
        for index in range(draw(st.integers(1, 5)))
    ]


@st.composite
def lines(draw: st.DrawFn) -> Quota:
    guaranteed = draw(st.integers(0, 6)) * 1000
    return Quota(
        gpu_class=draw(st.sampled_from((None, None, *CLASSES))),
        zone=draw(st.sampled_from((None, None, *ZONES))),
        guaranteed=guaranteed,
        limit=draw(st.sampled_from((None, None, 2_500, 8_000))),
        lendable=draw(st.sampled_from((None, None, 0, 1_000))),
        memory_limit_mib=draw(st.sampled_from((None, None, None, 200_000))),
    )


@st.composite
def queues(draw: st.DrawFn) -> list[TenantQueue]:
    found: list[TenantQueue] = []
    for index in range(draw(st.integers(1, 6))):
        parent = draw(st.sampled_from([None, *[queue.name for queue in found]]))
        found.append(
            TenantQueue(
                name=f"q{index}",
                parent=parent,
                namespaces=frozenset({"ns"}),
                weight=draw(st.integers(0, 3)),
                quotas=tuple(draw(st.lists(lines(), min_size=1, max_size=2))),
                user_limit=draw(st.sampled_from((None, None, None, 3_000))),
                consolidation=draw(st.booleans()),
            )
        )
    return found


@st.composite
def requests(draw: st.DrawFn) -> GpuRequest:
    sharing = draw(st.sampled_from(Sharing))
    classes = draw(st.sampled_from(((), (), ("H100",), ("A100", "H100"))))
    zones = draw(st.sampled_from(((), (), ("east",))))
    kind = draw(st.sampled_from(("whole", "milli", "mib", "both")))
    if kind == "whole":
        return GpuRequest(count=draw(st.integers(1, 3)), classes=classes, zones=zones, sharing=sharing)
    compute = draw(st.sampled_from((None, 100, 600))) if kind == "both" else None
    count = draw(st.sampled_from((1, 1, 2, 3)))
    if kind == "mib":
        memory = draw(st.sampled_from((1, 13_333, 39_999)))
        return GpuRequest(count=count, memory_mib=memory, classes=classes, sharing=sharing)
    return GpuRequest(
        count=count,
        memory_milli=draw(st.sampled_from((1, 250, 333, 400, 500, 1000))),
        compute_milli=compute,
        classes=classes,
        zones=zones,
        sharing=sharing,
    )


TOPOLOGIES = (None, None, Topology("rack", TopologyMode.REQUIRED), Topology("zone", TopologyMode.PREFERRED))
LEVELS = ("node", "rack", "zone")


def spreads_below(topology: Topology | None) -> list[Spread]:
    """Every spread that may stand beside the topology."""
    below = LEVELS if topology is None else LEVELS[: LEVELS.index(topology.level)]
    hard = [Spread(level, TopologyMode.REQUIRED, most) for level in below for most in (1, 2)]
    return [*hard, *(Spread(level, TopologyMode.PREFERRED) for level in below)]


@st.composite
def jobs(draw: st.DrawFn, names: Sequence[str]) -> list[Job]:
    found = []
    for index in range(draw(st.integers(1, 10))):
        low = draw(st.integers(1, 4))
        near = draw(st.sampled_from(TOPOLOGIES))
        found.append(
            make_job(
                f"j{index}",
                queue=draw(st.sampled_from(names)),
                namespace="ns",
                gpu=draw(requests()),
                workers=(low, low + draw(st.sampled_from((0, 0, 2)))),
                at=float(draw(st.integers(0, 3))),
                priority=draw(st.integers(0, 2)),
                user=draw(st.sampled_from(("ann", "bob"))),
                cpu_milli=draw(st.sampled_from((0, 1_000, 5_000))),
                chief_cpu_milli=draw(st.sampled_from((None, None, 0, 3_000, 8_000, 20_000))),
                chief_memory_mib=draw(st.sampled_from((None, None, 300_000))),
                scratch_mib=draw(st.sampled_from((0, 0, 0, 40_000))),
                chief_scratch_mib=draw(st.sampled_from((None, None, None, 0, 150_000))),
                preemptible=draw(st.sampled_from((True, True, True, False))),
                distinct_gpus=draw(st.sampled_from((True, True, False))),
                expected_runtime_s=draw(st.sampled_from((None, 60, 3_600))),
                topology=near,
                spread=draw(st.sampled_from((None, None, *spreads_below(near)))),
            )
        )
    return found


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[TenantQueue], list[Job]]:
    tree = draw(queues())
    return draw(nodes()), tree, draw(jobs([queue.name for queue in tree]))


@given(clusters())
def test_every_story_settles_and_never_overcommits(
    world: tuple[list[Node], list[TenantQueue], list[Job]],
) -> None:
    nodes, queues, jobs = world
    toy = ToyCluster(nodes, queues, jobs)
    for _ in range(80):
        plan = toy.cycle()
        held = list(toy.jobs.values())
        check_nothing_is_overcommitted(nodes, queues, held)
        check_limits(nodes, queues, held)
        if not plan.actions and not any(job.evicting or job.resizing_from for job in held):
            break
        toy.finish_evictions()
    else:
        raise AssertionError(f"still busy: {toy.history[-8:]}")


@given(clusters())
def test_every_pending_job_has_exactly_one_verdict_or_is_admitted_whole(
    world: tuple[list[Node], list[TenantQueue], list[Job]],
) -> None:
    nodes, queues, jobs = world
    toy = ToyCluster(nodes, queues, jobs)
    for _ in range(4):
        waiting = {key for key, job in toy.jobs.items() if job.placement is None}
        sizes = {key: (job.workers_min, job.workers_max) for key, job in toy.jobs.items()}
        plan = toy.cycle()
        admitted = {action.job for action in plan.actions if isinstance(action, Admit)}
        assert admitted | set(plan.verdicts) == waiting
        assert not admitted & set(plan.verdicts)
        for action in plan.actions:
            if isinstance(action, Admit | Resize):
                low, high = sizes[action.job]
                assert low <= action.placement.workers <= high
        assert all(verdict.message for verdict in plan.verdicts.values())
        toy.finish_evictions()


@given(clusters(), st.randoms(use_true_random=False))
def test_a_shuffled_snapshot_gives_the_same_plan(
    world: tuple[list[Node], list[TenantQueue], list[Job]], random: object
) -> None:
    nodes, queues, jobs = world
    toy = ToyCluster(nodes, queues, jobs)
    toy.cycle()
    snapshot = toy.snapshot()

    def shuffled(items: Sequence[object]) -> tuple[object, ...]:
        copy = list(items)
        random.shuffle(copy)  # type: ignore[attr-defined]
        return tuple(copy)

    other = Snapshot(
        now=snapshot.now,
        nodes=shuffled(snapshot.nodes),  # type: ignore[arg-type]
        queues=shuffled(snapshot.queues),  # type: ignore[arg-type]
        jobs=shuffled(snapshot.jobs),  # type: ignore[arg-type]
        nominations=snapshot.nominations,
        demand_history=snapshot.demand_history,
    )
    assert schedule(other) == schedule(snapshot)


@given(clusters())
def test_a_settled_world_gives_no_actions(world: tuple[list[Node], list[TenantQueue], list[Job]]) -> None:
    toy = ToyCluster(*world)
    verdicts = toy.settle().verdicts

    assert schedule(toy.snapshot()).actions == ()
    assert {key: verdict.reason for key, verdict in schedule(toy.snapshot()).verdicts.items()} == {
        key: verdict.reason for key, verdict in verdicts.items()
    }


@given(clusters())
def test_evictions_are_never_in_vain(world: tuple[list[Node], list[TenantQueue], list[Job]]) -> None:
    """A job for which others were evicted starts, or started before something else changed."""
    toy = ToyCluster(*world)
    for _ in range(60):
        plan = toy.cycle()
        evictions = [action for action in plan.actions if isinstance(action, Evict)]
        if not plan.actions:
            break
        toy.finish_evictions()
        if not evictions:
            continue
        following = toy.cycle()
        started = {action.job for action in following.actions if isinstance(action, Admit)}
        assert {eviction.in_favour_of for eviction in evictions} <= started
        toy.finish_evictions()


@given(clusters())
def test_only_preemptible_jobs_of_lower_priority_or_borrowers_leave(
    world: tuple[list[Node], list[TenantQueue], list[Job]],
) -> None:
    toy = ToyCluster(*world)
    for _ in range(10):
        before = dict(toy.jobs)
        plan = toy.cycle()
        for action in plan.actions:
            if isinstance(action, Evict) and action.in_favour_of is not None:
                victim, winner = before[action.job], before[action.in_favour_of]
                assert victim.preemptible
                if action.kind is EvictionKind.PREEMPTED:
                    assert victim.queue == winner.queue
                    assert victim.priority < winner.priority
                elif action.kind is EvictionKind.RECLAIMED:
                    assert victim.queue != winner.queue
        toy.finish_evictions()


@given(st.integers(1, 4), st.integers(1, 4), st.lists(st.integers(1, 3), min_size=1, max_size=8), st.booleans())
def test_borrowers_never_starve_a_guarantee(owner: int, guest: int, borrowed: list[int], nested: bool) -> None:
    """Nodes have one GPU, so only borrowers are in the way: the owner gets all that it is guaranteed."""
    top = [make_queue("dept", guaranteed=owner)] if nested else []
    queues = [
        *top,
        replace(make_queue("owner", guaranteed=owner, parent="dept" if nested else None), namespaces=frozenset({"ns"})),
        replace(make_queue("guest", guaranteed=guest), namespaces=frozenset({"ns"})),
    ]
    nodes = [make_node(f"n{index}", gpus=1) for index in range(owner + guest)]
    guests = [
        make_job(f"g{index}", queue="guest", namespace="ns", workers=workers, at=index)
        for index, workers in enumerate(borrowed)
    ]
    toy = ToyCluster(nodes, queues, guests)
    toy.settle()
    for index in range(owner + 2):
        toy.observe(make_job(f"o{index}", queue="owner", namespace="ns", at=100 + index))
    toy.settle()

    held = sum(1 for job in toy.jobs.values() if job.queue == "owner" and job.placement is not None)
    assert held >= owner
