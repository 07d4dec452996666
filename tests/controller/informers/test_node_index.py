"""Nodes, and whether their kubelets answer."""

from __future__ import annotations

from cotenant.controller.client.kube import NODES, Document
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.node_index import NodeIndex
from tests.controller.builders import T0


def versioned(document: Document, version: int) -> Document:
    return document | {"metadata": document["metadata"] | {"resourceVersion": str(version)}}


def test_a_cordoned_node_is_not_a_dead_one() -> None:
    cache = ObjectCache()
    node = {"metadata": {"name": "n1", "uid": "n", "resourceVersion": "1"}, "spec": {"unschedulable": True}}
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8", "memory": "16Gi"}}
    cache.put(NODES, node | {"status": ready})
    assert (cache.nodes.facts["n1"].ready, cache.nodes.unreachable) == (False, {})
    cache.put(NODES, versioned(node | {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, 2))
    assert list(cache.nodes.unreachable) == ["n1"]


def test_a_node_is_unreachable_since_the_time_that_it_says_or_else_since_it_was_seen_to_be() -> None:
    index = NodeIndex()
    says = {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    assert [index.put_node("n1", {"status": says}, T0 + 50), index.put_node("n1", {"status": says}, T0 + 60)] == [
        True,
        False,
    ]
    assert index.put_node("n2", {"status": {}}, T0 + 50)
    assert (index.drop_node("n1", T0 + 70), index.drop_node("n3", T0 + 70)) == (False, True)
    assert index.unreachable == {"n1": T0, "n2": T0 + 50, "n3": T0 + 70}
    index.put_node("n3", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, T0 + 80)
    assert set(index.unreachable) == {"n1", "n2"}


def test_a_node_that_was_seen_to_answer_is_unreachable_since_then_whatever_the_control_planes_clock_says() -> None:
    """A job leaves a node that has not answered for a minute: a clock that is ahead by more would make it leave at
    once.
    """
    index, since = NodeIndex(), []
    for name, at in (("behind", "2025-12-31T23:50:00Z"), ("ahead", "2026-01-01T00:10:00Z")):
        index.put_node(name, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, T0)
        lost = {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": at}]}
        index.put_node(name, {"status": lost}, T0 + 5)
        index.put_node(f"new-{name}", {"status": lost}, T0 + 5)
        since += [index.unreachable[name] - T0, index.unreachable[f"new-{name}"] - T0]
    assert since == [5, -600, 5, 5]
