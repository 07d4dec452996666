"""Nodes, and whether their kubelets answer."""

from __future__ import annotations

from cotenant.controller.client.kube import NODES, Document
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.node_index import status_written_at
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


def test_the_api_servers_own_time_of_the_last_write_of_a_status_is_read() -> None:
    entries = [
        {"manager": "agent", "operation": "Update", "time": "2026-01-01T00:00:00Z"},
        {"manager": "agent", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:01:00Z"},
        {"manager": "kubectl", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:00:30Z"},
    ]
    assert status_written_at({"metadata": {"managedFields": entries}}) == T0 + 60
    assert (status_written_at({"metadata": {}}), status_written_at({"metadata": {"managedFields": entries[:1]}})) == (
        None,
        None,
    )
