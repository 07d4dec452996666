"""Every GPU is released once and promised once, for whatever reasons jobs leave, in all settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.core.model.objects import Job, Node, TenantQueue, TimeOrder
from cotenant.core.model.plan import Admit, Evict, Plan, Resize
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.quota.bookings import BookingTerms
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.state.facts import BookingObserved, NodeObserved
from tests.core.worlds.recount import check_nothing_is_overcommitted
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue, make_snapshot

HOUR = 3_600.0


def as_planned(jobs: list[Job], plan: Plan) -> Iterator[Job]:
    """Jobs after the whole plan: those asked to leave have left, those admitted or nominated hold their places."""
    evicted = {action.job for action in plan.actions if isinstance(action, Evict)}
    placed = {action.job: action.placement for action in plan.actions if isinstance(action, Admit | Resize)}
    for job in jobs:
        if job.evicting or job.key in evicted or job.placement is None:
            assert job.placement is None or job.key not in placed, f"{job.key} leaves and is resized"
            place = placed.get(job.key) or plan.nominations.get(job.key)
        else:
            place = placed.get(job.key, job.placement)
        yield replace(job, placement=place, resizing_from=None)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    return Policy(
        protected_runtime_s=draw(st.sampled_from((0, 300))),
        collect_after_s=draw(st.sampled_from((0, 600))),
        tenure_s=draw(st.sampled_from((0, 900))),
        reserve_within_s=draw(st.sampled_from((0, 3_600))),
        moves=draw(st.sampled_from((0, 4))),
        forecasts=draw(st.sampled_from((0, 4))),
        advice=draw(st.sampled_from((0, 20))),
    )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Node], list[TenantQueue], list[Job]]:
    """Few GPUs of one class, so that jobs are in each other's way, and many jobs that may shrink and grow."""
    order = draw(st.sampled_from(TimeOrder))
    tree: list[TenantQueue] = []
    for index in range(draw(st.integers(1, 3))):
        parent = draw(st.sampled_from([None, *[queue.name for queue in tree]]))
        guaranteed = draw(st.sampled_from((0, 0, 2, 4)))
        queue = make_queue(f"q{index}", guaranteed=guaranteed, parent=parent, namespaces=frozenset({"ns"}))
        tree.append(replace(queue, order=order, consolidation=draw(st.booleans())))
    some = []
    for index in range(14):
        low = draw(st.sampled_from((1, 1, 2, 4)))
        some.append(
            make_job(
                f"j{index}",
                queue=draw(st.sampled_from(tree)).name,
                namespace="ns",
                milli=draw(st.sampled_from((None, None, 500))),
                workers=(low, low + draw(st.sampled_from((0, 3)))),
                priority=draw(st.sampled_from((0, 0, 1))),
                max_runtime_s=draw(st.sampled_from((None, None, 1_200))),
                expected_runtime_s=draw(st.sampled_from((None, 300))),
                preemptible=draw(st.sampled_from((True, True, True, False))),
            )
        )
    return [make_node(f"n{index}", gpus=4) for index in range(draw(st.integers(1, 2)))], tree, some


@st.composite
def bookings(draw: st.DrawFn, names: list[str]) -> list[BookingTerms]:
    return [
        BookingTerms(
            name=f"b{number}",
            queue=draw(st.sampled_from(names)),
            gpu_class="H100",
            gpus=draw(st.integers(1, 3)),
            starts_at=draw(st.sampled_from((0.0, 2 * HOUR))),
            ends_at=4 * HOUR,
        )
        for number in range(draw(st.integers(0, 1)))
    ]


@given(worlds(), policies(), st.data())
@settings(max_examples=3 * settings().max_examples)
def test_no_plan_releases_or_promises_a_gpu_twice(
    world: tuple[list[Node], list[TenantQueue], list[Job]], policy: Policy, data: st.DataObject
) -> None:
    nodes, tree, come = world
    toy = ToyCluster(nodes, tree, [], policy=policy)
    for booking in data.draw(bookings([queue.name for queue in tree])):
        toy.state.observe(BookingObserved(booking))
    for _ in range(14):
        toy.now += data.draw(st.sampled_from((1.0, 400.0, 1_000.0)))
        what = data.draw(st.sampled_from(("come", "come", "come", "leave", "end", "move", "lose", "wait")))
        disturb(toy, what, come, data)
        before = list(toy.jobs.values())
        plan = toy.cycle()
        check_nothing_is_overcommitted(nodes, tree, list(as_planned(before, plan)))


def disturb(toy: ToyCluster, what: str, come: list[Job], data: st.DataObject) -> None:
    running = sorted(key for key, job in toy.jobs.items() if job.placement is not None)
    if what == "come":
        for _ in range(min(len(come), data.draw(st.integers(1, 3)))):
            toy.observe(replace(come.pop(), submitted_at=toy.now - data.draw(st.sampled_from((0.0, 900.0)))))
    elif what == "leave":
        toy.finish_evictions()
    elif running and what == "end":
        toy.end(data.draw(st.sampled_from(running)))
    elif running and what == "move":
        job = toy.jobs[data.draw(st.sampled_from(running))]
        assert job.placement is not None
        toy.observe(replace(job, move_asked=True, excluded_nodes=frozenset({job.placement.nodes[0].node})))
    elif what == "lose":
        node = data.draw(st.sampled_from(toy.snapshot().nodes))
        toy.state.observe(NodeObserved(replace(node, deleted=True)))


def elastic(queue: str, now: float) -> Job:
    place = make_placement(("n", [[column] for column in range(4)]))
    return replace(make_job("e", queue=queue, workers=(1, 4), placement=place), admitted_at=now - 19 * HOUR)


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize(
    ("policy", "queue"),
    [
        pytest.param(replace(DEFAULT, tenure_s=7_200, collect_after_s=21_600), "red", id="its tenure is over"),
        pytest.param(replace(DEFAULT, collect_after_s=21_600), "blue", id="it borrows"),
    ],
)
def test_an_elastic_job_that_shrinks_for_one_job_gives_the_rest_to_another(
    size: int, policy: Policy, queue: str
) -> None:
    now = 1_000_000.0
    holder = elastic(queue, now)
    waiting = [make_job("a", at=now - 10 * HOUR), make_job("b", gpus=size, at=now - 9 * HOUR)]
    others = replace(make_job("h", workers=2, placement=make_placement(("m", [[0], [1]]))), admitted_at=now - 29 * HOUR)
    some = [holder, *waiting, *([others] if queue == "blue" else [])]
    tree = [make_queue("red", guaranteed=4), make_queue("blue", guaranteed=0)]
    nodes = [make_node("n", gpus=4), make_node("m", gpus=2)]
    plan = schedule(make_snapshot(nodes=nodes[: 1 + (queue == "blue")], queues=tree, jobs=some, now=now), policy)

    check_nothing_is_overcommitted(nodes, tree, list(as_planned(some, plan)))
    assert "red/a" in plan.nominations
    assert ("red/b" in plan.nominations) is (size < 4)
