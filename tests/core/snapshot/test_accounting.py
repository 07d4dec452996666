"""The cluster counted fact by fact is the cluster counted afresh."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.model.objects import Job, Node, TenantQueue
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.accounting import Accounting, AccountingCache
from cotenant.core.state.facts import NodeGone, NodeObserved
from tests.core.worlds.held_amounts import same_ledger, same_usage
from tests.core.worlds.test_properties import clusters
from tests.support.clusters import ToyCluster, make_job, make_node, make_placement, make_queue

NODE = make_node("n1", gpus=4)
QUEUES = (make_queue("red", guaranteed=4),)
WAITING = make_job("waiting", workers=2)
RUNNING = make_job("running", placement=make_placement(("n1", [[0]])))


def cache(*jobs: Job) -> AccountingCache:
    counted = AccountingCache()
    counted.refresh((NODE,), QUEUES, jobs)
    return counted


def state(accounting: Accounting) -> tuple[object, ...]:
    """Everything that a cycle reads of it, comparable."""
    return (
        accounting.ledger.packed.tolist(),
        accounting.usage.quota_milli,
        accounting.allocations,
        accounting.running,
        accounting.pending,
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, WAITING, id="a job appears and waits"),
        pytest.param(None, RUNNING, id="a job appears and runs"),
        pytest.param(WAITING, None, id="a job that waits goes"),
        pytest.param(RUNNING, None, id="a job that runs goes"),
        pytest.param(RUNNING, replace(RUNNING, placement=None), id="a job gives its place back"),
        pytest.param(replace(RUNNING, placement=None), RUNNING, id="a job gets a place"),
        pytest.param(
            RUNNING, replace(RUNNING, placement=make_placement(("n1", [[1], [2]]))), id="a job moves and grows"
        ),
        pytest.param(
            RUNNING,
            replace(RUNNING, resizing_from=make_placement(("n1", [[0], [3]]))),
            id="a job holds what it leaves until its workers have left",
        ),
    ],
)
def test_a_changed_job_is_counted_anew_when(before: Job | None, after: Job | None) -> None:
    other = make_job("other", placement=make_placement(("n1", [[3]]), milli=500), milli=500)
    followed = cache(other, *([before] if before else []))
    jobs = (other, *([after] if after else []))

    followed.update_job(after, before)

    found = followed.accounting((NODE,), QUEUES, jobs)
    assert state(found) == state(Accounting.of((NODE,), QUEUES, jobs))
    assert found.ledger.changed_rows.tolist() == []


def test_an_accounting_does_not_change_when_the_state_goes_on() -> None:
    followed = cache(WAITING)
    kept = followed.accounting((NODE,), QUEUES, (WAITING,))
    before = state(kept)

    followed.update_job(RUNNING, None)
    followed.update_job(None, WAITING)

    assert state(kept) == before


@pytest.mark.parametrize(
    ("after", "recounts"),
    [
        pytest.param(NODE, False, id="nothing"),
        pytest.param(replace(NODE, cpu_milli=1, memory_mib=1), False, id="free amounts"),
        pytest.param(replace(NODE, ready=False), False, id="readiness"),
        pytest.param(replace(NODE, gpus=(replace(NODE.gpus[0], healthy=False), *NODE.gpus[1:])), False, id="health"),
        pytest.param(None, True, id="the node goes"),
        pytest.param(replace(NODE, zone="west"), True, id="its zone"),
        pytest.param(replace(NODE, rack="r"), True, id="its rack"),
        pytest.param(replace(NODE, gpus=NODE.gpus[1:]), True, id="a GPU goes"),
        pytest.param(
            replace(NODE, gpus=(replace(NODE.gpus[0], peers=frozenset({"GPU-n1-1"})), *NODE.gpus[1:])),
            True,
            id="its NVLink",
        ),
        pytest.param(
            replace(NODE, gpus=(replace(NODE.gpus[0], memory_mib=9), *NODE.gpus[1:])), True, id="memory of a GPU"
        ),
    ],
)
def test_after_a_node_changed_the_numbers_equal_a_fresh_count(after: Node | None, recounts: bool) -> None:
    """Jobs are read again only where the frame changed: no job is given here, so those counted before show which."""
    followed = cache(RUNNING)
    followed.update_node(after, NODE)
    nodes = (after,) if after else ()

    assert bool(followed.accounting(nodes, QUEUES, ()).running) is not recounts

    again = cache(RUNNING)
    again.update_node(after, NODE)
    found, afresh = again.accounting(nodes, QUEUES, (RUNNING,)), Accounting.of(nodes, QUEUES, (RUNNING,))
    assert state(found) == state(afresh)
    assert [line.guaranteed for line in found.tree.quotas] == [line.guaranteed for line in afresh.tree.quotas]
    assert found.inventory.usable.tolist() == afresh.inventory.usable.tolist()


def test_after_queues_changed_the_numbers_equal_a_fresh_count() -> None:
    followed = cache(RUNNING)
    followed.invalidate()
    followed.update_job(None, RUNNING)

    assert followed.accounting((NODE,), (make_queue("blue"),), (WAITING,)).running == {}


@given(clusters(), st.data())
def test_accounts_kept_fact_by_fact_equal_a_fresh_count(
    world: tuple[list[Node], list[TenantQueue], list[Job]], data: st.DataObject
) -> None:
    """Any order of facts, plans assumed and forgotten, nodes that change and go."""
    nodes, queues, jobs = world
    toy = ToyCluster(nodes, queues, jobs)
    for _ in range(data.draw(st.integers(1, 8))):
        match data.draw(st.sampled_from(("cycle", "leave", "end", "forget", "health", "gone", "back"))):
            case "cycle":
                toy.cycle()
            case "leave":
                toy.finish_evictions()
            case "end":
                toy.end(data.draw(st.sampled_from(sorted(job.key for job in jobs))))
            case "forget":
                plan = schedule(toy.snapshot())
                toy.state.assume(plan, toy.now)
                for action in plan.actions:
                    toy.state.forget(action)
            case "health":
                node = data.draw(st.sampled_from(nodes))
                toy.state.observe(NodeObserved(replace(node, ready=data.draw(st.booleans()), cpu_milli=70_000)))
            case "gone":
                toy.state.observe(NodeGone(data.draw(st.sampled_from(nodes)).name))
            case "back":
                toy.state.observe(NodeObserved(data.draw(st.sampled_from(nodes))))
        snapshot = toy.snapshot()
        carried, counted = snapshot.accounting, Accounting.of(snapshot.nodes, snapshot.queues, snapshot.jobs)
        assert carried is not None
        assert carried.ledger.free_memory.tolist() == counted.ledger.free_memory.tolist()
        assert same_ledger(carried.ledger, counted.ledger)
        assert same_usage(carried.usage, counted.usage)
        assert schedule(snapshot) == schedule(replace(snapshot, accounting=None))


def test_a_repeated_fact_changes_nothing() -> None:
    other = make_job("other")
    followed = cache(WAITING, other)
    followed.update_job(WAITING, WAITING)

    assert followed.accounting((NODE,), QUEUES, ()).pending == (WAITING, other)
