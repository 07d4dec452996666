"""Evictions and bindings of pods, of which a policy sees the options and not the pod."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.chart.tenants.account import Account, Document
from tests.live.chart.tenants.conftest import grant

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster


def evict(account: Account, **options: Any) -> str:
    eviction: Document = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "train-1-0"}}
    return account.create("pods/train-1-0/eviction", eviction | ({"deleteOptions": options} if options else {}))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param({}, "", id="plainly"),
        pytest.param({"gracePeriodSeconds": 30}, "", id="with a grace"),
        pytest.param({"gracePeriodSeconds": 600}, "", id="with the longest grace"),
        pytest.param({"propagationPolicy": "Background"}, "", id="as controllers do"),
        pytest.param({"gracePeriodSeconds": 0}, "deleteOptions.gracePeriodSeconds: 0 would take", id="by force"),
        pytest.param({"gracePeriodSeconds": 601}, "gracePeriodSeconds: 601 is more than 600", id="later"),
        pytest.param({"gracePeriodSeconds": 100_000_000}, "100000000 is more than 600", id="never"),
        pytest.param({"propagationPolicy": "Foreground"}, "deleteOptions.propagationPolicy", id="after dependents"),
        pytest.param({"propagationPolicy": "Orphan"}, "deleteOptions.propagationPolicy", id="orphaning dependents"),
    ],
)
def test_a_tenant_evicts_within_the_administrators_bounds(
    tenant: Account, administrator: Account, options: Document, says: str
) -> None:
    answer = evict(tenant, **options)
    assert (says in answer) if says else answer == ""
    assert evict(administrator, **options) == ""


def test_a_pod_is_bound_by_whoever_binds_in_all_namespaces(stage: Cluster, account: Callable[..., Account]) -> None:
    grant(stage, "binder", "create", "bindings", "pods/binding")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "train-1-1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "other"},
    }
    for path in ("pods/train-1-1/binding", "bindings"):
        assert "target: binding a pod passes the scheduler by" in account("binder").create(path, binding)
        assert account("system:kube-scheduler").create(path, binding) == ""
