from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion.pod_requests import extended_requests, pod_requests


def _asking(cpu: str = "0", memory: str = "0", **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def _sidecar(cpu: str) -> dict[str, Any]:
    return _asking(cpu, restartPolicy="Always")


def _given(cpu: str, allocated: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": allocated}}


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, (0, 0), id="nothing"),
        pytest.param({"containers": [_asking("100m", "1Gi"), {}]}, (100, 1024), id="two containers, one without"),
        pytest.param(
            {
                "containers": [_asking("1", "1Mi")],
                "initContainers": [_asking("2"), _asking("500m", "1Mi", restartPolicy="Always")],
                "overhead": {"cpu": "250m"},
            },
            (2250, 2),
            id="a large init container before a sidecar, and overhead",
        ),
        pytest.param(
            {"containers": [_asking("1")], "initContainers": [_sidecar("500m"), _asking("2")]},
            (2500, 0),
            id="an init container runs beside the sidecar that started before it",
        ),
        pytest.param(
            {"containers": [_asking("1")], "initContainers": [_sidecar("3"), _sidecar("1"), _asking("500m")]},
            (5000, 0),
            id="sidecars run beside the containers",
        ),
        pytest.param(
            {"containers": [_asking("1", "1Gi"), _asking("1", "1Gi")], "resources": {"requests": {"cpu": "8"}}},
            (8000, 2048),
            id="the pod as a whole asks for CPU, its containers for memory",
        ),
        pytest.param(
            {"containers": [_asking("4")], "resources": {"requests": {"cpu": "5"}}, "overhead": {"cpu": "250m"}},
            (5250, 0),
            id="overhead comes on top of what the pod asks for as a whole",
        ),
        pytest.param(
            {"containers": [_asking("4")], "resources": {"limits": {"cpu": "8"}}},
            (4000, 0),
            id="limits are no requests",
        ),
        pytest.param({"containers": [_asking("5000e-3", "+1Gi")]}, (5000, 1024), id="written by hand, kept as written"),
        pytest.param({"containers": [_asking("lots", "1Gi")]}, (0, 1024), id="what is no amount counts as nothing"),
    ],
)
def test_a_pod_takes_of_its_node_what_the_kube_scheduler_counts(spec: dict[str, Any], want: tuple[int, int]) -> None:
    assert pod_requests({"spec": spec}) == want


@pytest.mark.parametrize(
    ("asked", "status", "want"),
    [
        pytest.param("4", {"containerStatuses": [{"name": "a"}]}, 4000, id="not started yet"),
        pytest.param("4", {"containerStatuses": [{"name": "a", **_given("4", "4")}]}, 4000, id="no resize"),
        pytest.param("1", {"containerStatuses": [{"name": "a", **_given("4", "4")}]}, 4000, id="smaller, not yet done"),
        pytest.param("1", {"containerStatuses": [{"name": "a", **_given("4", "1")}]}, 4000, id="smaller, in progress"),
        pytest.param("1", {"containerStatuses": [{"name": "b", **_given("4", "4")}]}, 1000, id="another container's"),
        pytest.param("6", {"containerStatuses": [{"name": "a", **_given("4", "4")}], **DEFERRED}, 6000, id="deferred"),
        pytest.param(
            "60", {"containerStatuses": [{"name": "a", **_given("4", "3")}], **INFEASIBLE}, 4000, id="never possible"
        ),
    ],
)
def test_during_a_resize_the_larger_amount_counts_unless_it_is_infeasible(
    asked: str, status: dict[str, Any], want: int
) -> None:
    document = {"spec": {"containers": [_asking(asked, name="a")]}, "status": status}
    assert pod_requests(document) == (want, 0)


def test_a_sidecar_is_resized_like_a_container_and_by_its_own_status() -> None:
    document = {
        "spec": {
            "containers": [_asking("1", name="a")],
            "initContainers": [_asking("1", name="s", restartPolicy="Always")],
        },
        "status": {"initContainerStatuses": [{"name": "s", **_given("3", "3")}, {"name": "a", **_given("9", "9")}]},
    }
    assert pod_requests(document) == (4000, 0)


def test_a_pod_that_is_resized_as_a_whole_counts_with_what_it_still_has() -> None:
    spec = {"containers": [_asking("9")], "resources": {"requests": {"cpu": "2"}}}
    assert pod_requests({"spec": spec, "status": _given("6", "5")}) == (6000, 0)


def _devices(number: int, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"amd.com/gpu": str(number), "cpu": "1"}}, **more}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [_asking("1")]}, {}, id="none"),
        pytest.param({"containers": [_devices(2), _devices(1), {}]}, {"amd.com/gpu": 3}, id="containers add up"),
        pytest.param(
            {
                "containers": [_devices(1)],
                "initContainers": [_devices(1, restartPolicy="Always"), _devices(4)],
            },
            {"amd.com/gpu": 5},
            id="an init container beside a sidecar",
        ),
        pytest.param(
            {"containers": [{"resources": {"requests": {"google.com/tpu": "many", "habana.ai/gaudi": 1}}}]},
            {"google.com/tpu": 0, "habana.ai/gaudi": 1},
            id="what cannot be read counts as none",
        ),
    ],
)
def test_devices_of_a_pod_are_counted_by_resource(spec: dict[str, Any], want: dict[str, int]) -> None:
    assert extended_requests({"spec": spec}) == want
