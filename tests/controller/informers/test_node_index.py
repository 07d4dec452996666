"""Nodes, and whether their kubelets answer."""

from __future__ import annotations

from cotenant.controller.client.kube import NODES, Document
from cotenant.controller.informers.cache import ObjectCache


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
