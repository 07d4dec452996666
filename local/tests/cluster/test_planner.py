"""The plan of a cluster: Node objects from the start, disks, no more than there is."""

from pathlib import Path

import pytest

from cotenant_local.cluster import planner, spec
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.errors import LocalError


def places(folder: Path) -> planner.Prerequisites:
    return planner.Prerequisites(ClusterFolder(folder), programs=folder, stubs=folder, oldest=None, cgroup=None)


def test_a_node_carries_its_zone_inventory_and_taints_from_the_start(tmp_path: Path) -> None:
    node = {"name": "a", "zone": "z", "gpus": {"count": 2, "class": "A100"}, "taints": ["gpu=yes:NoSchedule"]}
    plan, listeners = planner.plan("name", spec.parse({"nodes": [node]}, "this test"), places(tmp_path))
    for listener in listeners:
        listener.close()
    (planned,) = plan.nodes
    assert planned.manifest["metadata"] == {
        "name": "a",
        "labels": {"topology.kubernetes.io/zone": "z", "cotenant.dev/gpu-class": "A100"},
        "annotations": {"cotenant.dev/simulated-gpus": '{"class": "A100", "memory": "80Gi", "count": 2}'},
    }
    assert planned.manifest["spec"] == {
        "podCIDR": "10.244.1.0/24",
        "podCIDRs": ["10.244.1.0/24"],
        "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
    }


@pytest.mark.parametrize(
    ("gpus", "limits"),
    [
        pytest.param({}, False, id="no GPUs"),
        pytest.param({"gpus": {"count": 1, "class": "A100"}}, False, id="GPUs"),
        pytest.param({"gpus": {"count": 1, "class": "A100", "memoryLimits": True}}, True, id="GPUs with limits"),
    ],
)
def test_limits_of_gpu_memory_are_played_where_they_are_asked_for(
    tmp_path: Path, gpus: dict[str, object], limits: bool
) -> None:
    wanted = spec.parse({"nodes": [{"name": "a", **gpus}]}, "this test")
    plan, listeners = planner.plan("name", wanted, places(tmp_path))
    for listener in listeners:
        listener.close()
    assert [node.memory_limits for node in plan.nodes] == [limits]


def test_more_disk_than_there_is_is_refused(tmp_path: Path) -> None:
    asked = spec.parse({"nodes": [{"name": "a", "ephemeralStorage": "900Ti"}]}, "this test")
    with pytest.raises(LocalError, match=r"node a: ephemeralStorage 900Ti is more than the disk .* has"):
        planner.plan("name", asked, places(tmp_path))
