"""How many more nodes of which kind would start what waits: so many are enough, and one less is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.core.model.objects import Job, Node
from cotenant.core.model.plan import Admit
from cotenant.core.scheduling.scheduler import place
from cotenant.query.cluster_change import with_copies
from cotenant.query.node_needs import NodeNeeds, node_needs
from cotenant.query.situation import Situation
from tests.support.clusters import ToyCluster, make_job, make_node, make_queue

QUEUES = (make_queue("red", guaranteed=2), make_queue("blue", guaranteed=2, limit=4))
H100, A100 = make_node("n1"), make_node("n2", gpu_class="A100", gpus=4)
GANG = make_job("gang", workers=6, classes=("H100",))


def decided(*jobs: Job, nodes: tuple[Node, ...] = (H100, A100)) -> Situation:
    toy = ToyCluster(nodes, QUEUES, jobs)
    toy.settle()
    planned = replace(toy.snapshot(), now=toy.now + 1.0)
    return Situation(planned, toy.cycle(), toy.policy)


def always() -> bool:
    return True


def rows(found: NodeNeeds) -> list[tuple[str, int, int]]:
    return [(one.like, one.nodes, one.starts) for one in found.kinds]


def test_a_gang_that_the_cluster_never_holds_needs_the_nodes_that_it_lacks() -> None:
    found = node_needs(decided(GANG), always)
    assert (rows(found), found.waiting, found.unhelped) == ([("n1", 2, 1)], 1, ())
    assert (found.kinds[0].gpus, found.kinds[0].is_least) == ((("H100", 2),), True)


def test_each_class_that_is_waited_for_has_its_own_number() -> None:
    jobs = [make_job(f"j{number}", gpus=4, classes=("A100",), at=float(number)) for number in range(3)]
    assert rows(node_needs(decided(GANG, *jobs), always)) == [("n2", 2, 2), ("n1", 2, 1)]


def test_kinds_are_alternatives_for_a_job_that_takes_both() -> None:
    assert rows(node_needs(decided(make_job("any", workers=8)), always)) == [("n1", 1, 1), ("n2", 1, 1)]


def test_a_node_that_takes_no_work_is_replaced_by_one_that_does() -> None:
    ill = replace(H100, ready=False, gpus=tuple(replace(gpu, healthy=False) for gpu in H100.gpus))
    assert rows(node_needs(decided(make_job("one"), nodes=(ill,)), always)) == [("n1", 1, 1)]


def test_nodes_of_two_zones_are_two_kinds() -> None:
    zones = (replace(H100, zone="a"), make_node("n3", zone="b"))
    found = node_needs(decided(make_job("one", gpus=2), make_job("two", gpus=2), GANG, nodes=zones), always)
    assert [(one.zone, one.nodes) for one in found.kinds] == [("a", 3), ("b", 3)]


def test_what_a_limit_keeps_waiting_is_counted_by_its_reason() -> None:
    jobs = [make_job(f"j{number}", queue="blue", gpus=2, at=float(number)) for number in range(3)]
    found = node_needs(decided(*jobs, nodes=(H100,)), always)
    assert (rows(found), found.waiting, found.unhelped) == ([("n1", 1, 1)], 2, (("WaitingForQuota", 1),))


def test_if_nothing_waits_nothing_is_needed() -> None:
    assert node_needs(decided(make_job("runs")), always) == NodeNeeds(waiting=0, kinds=(), unhelped=())


def test_if_the_time_is_over_the_answer_is_an_upper_bound() -> None:
    found = node_needs(decided(GANG, nodes=(H100,)), lambda: False)
    assert [(one.nodes, one.is_least) for one in found.kinds] == [(6, False)]


def test_kinds_for_which_there_is_no_time_are_counted() -> None:
    assert node_needs(decided(GANG), lambda: False).untried == 1


JOBS = st.builds(
    lambda number, queue, gpus, workers, classes: make_job(
        f"j{number}", queue=queue, gpus=gpus, workers=workers, classes=classes
    ),
    st.integers(0, 9),
    st.sampled_from(["red", "blue"]),
    st.integers(1, 4),
    st.integers(1, 5),
    st.sampled_from([(), ("H100",), ("A100",)]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(JOBS, max_size=6))
def test_so_many_nodes_are_enough_and_one_less_is_not(jobs: list[Job]) -> None:
    situation = decided(*jobs)
    before = place(situation.snapshot, situation.policy)
    waiting = before.verdicts.keys() - before.nominations.keys()

    def started(like: str, nodes: int) -> set[str]:
        node = next(one for one in situation.snapshot.nodes if one.name == like)
        plan = place(with_copies(situation.snapshot, node, nodes), situation.policy)
        return {one.job for one in plan.actions if isinstance(one, Admit) and one.job in waiting}

    for one in node_needs(situation, always).kinds:
        enough = started(one.like, one.nodes)
        assert len(enough) >= one.starts
        assert not enough <= started(one.like, one.nodes - 1)


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_a_node_that_was_deleted_is_no_kind(name: str) -> None:
    nodes = tuple(replace(node, deleted=node.name == name, ready=node.name != name) for node in (H100, A100))
    found = node_needs(decided(make_job("any", workers=8), nodes=nodes), always)
    assert name not in {one.like for one in found.kinds}
