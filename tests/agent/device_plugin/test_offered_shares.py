"""How many shares of each GPU the kubelet may give away, from what is on the node. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant_agent.device_plugin.offered_shares import offered
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.enforcement.quota import PodQuota
from cotenant_agent.gpus.readings import HealthSigns
from cotenant_agent.reports.node_view import NodeObserver
from tests.agent.reports.observed import NOW, busy, make_observer

COUNTED = PodQuota(
    pod_uid="pod-1",
    namespace="red",
    pod="a-1-0",
    quota_mib={"GPU-a": 40_960, "GPU-b": 81_920},
    compute_milli={"GPU-a": 300, "GPU-b": 1000},
    requests_shares=True,
)
UNCOUNTED = replace(COUNTED, requests_shares=False)


def healthy(observer: NodeObserver, pods: PodsOnNode | None, signs: HealthSigns | None = None) -> dict[str, int] | None:
    found = offered(observer.observe(busy(signs=signs), pods, NOW))
    return None if found is None else {one.resource.partition("/")[2]: one.healthy for one in found}


ALL = {"memory.gpu-a": 1000, "compute.gpu-a": 1000, "memory.gpu-b": 1000, "compute.gpu-b": 1000}


def test_every_gpu_is_offered_in_both_dimensions() -> None:
    assert healthy(make_observer(), PodsOnNode()) == ALL


def test_nothing_is_offered_before_it_is_known_who_holds_what() -> None:
    assert healthy(make_observer(), None) is None


def test_what_pods_request_is_the_kubelets_to_count() -> None:
    assert healthy(make_observer(), PodsOnNode(grants={"pod-1": COUNTED})) == ALL


def test_what_pods_hold_without_a_request_is_held_back() -> None:
    """Such pods were made before the node offered shares, or have a claim."""
    assert healthy(make_observer(), PodsOnNode(grants={"pod-1": UNCOUNTED})) == {
        "memory.gpu-a": 500, "compute.gpu-a": 700, "memory.gpu-b": 0, "compute.gpu-b": 0,
    }  # fmt: skip


def test_what_runs_on_after_its_pod_is_held_back_since_the_kubelet_has_it_free() -> None:
    observer = make_observer(running=lambda: frozenset({"pod-1"}))
    healthy(observer, PodsOnNode(grants={"pod-1": COUNTED}))
    left = healthy(observer, PodsOnNode())
    assert left == {"memory.gpu-a": 500, "compute.gpu-a": 700, "memory.gpu-b": 0, "compute.gpu-b": 0}


def test_a_sick_gpu_has_no_healthy_share_and_the_others_have_theirs() -> None:
    assert healthy(make_observer(), PodsOnNode(), HealthSigns(lost=True)) == ALL | {
        "memory.gpu-a": 0, "compute.gpu-a": 0,
    }  # fmt: skip


def test_a_stranger_keeps_everybody_off_its_gpu() -> None:
    observer = make_observer()
    for _ in range(3):
        found = offered(observer.observe(busy(3), PodsOnNode(), NOW))
    assert found is not None
    assert [one.healthy for one in found] == [0, 0, 1000, 1000]


def test_a_gpu_that_is_partitioned_is_not_offered_itself() -> None:
    assert healthy(make_observer(mig=True), PodsOnNode()) == {"memory.gpu-b": 1000, "compute.gpu-b": 1000}


@pytest.mark.parametrize("pods", range(1, 4))
def test_more_than_there_is_holds_back_all(pods: int) -> None:
    grants = {f"pod-{number}": replace(UNCOUNTED, pod_uid=f"pod-{number}") for number in range(1, pods + 2)}
    found = healthy(make_observer(), PodsOnNode(grants=grants))
    assert found is not None
    assert (found["memory.gpu-a"], found["compute.gpu-a"]) == (0, max(0, 1000 - 300 * (pods + 1)))
