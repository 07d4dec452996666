"""The leaf of a container in trees as kubelets make them."""

from pathlib import Path

import pytest

from cotenant_agent.enforcement.container_cgroups import ContainerCgroups

ID = "a1" * 32
POD = "kubepods-burstable-pod11111111_1111_1111_1111_111111111111.slice"


@pytest.mark.parametrize(
    "leaf",
    [
        f"kubepods.slice/kubepods-burstable.slice/{POD}/cri-containerd-{ID}.scope",
        f"kubepods.slice/kubepods-burstable.slice/{POD}/crio-{ID}.scope",
        f"system.slice/containerd.service/{POD}:cri-containerd:{ID}",
        f"kubepods/burstable/pod11111111-1111-1111-1111-111111111111/{ID}",
        f"system.slice/kind.scope/kubelet.slice/kubelet-kubepods.slice/{POD}/cri-containerd-{ID}.scope",
    ],
)
def test_a_container_is_found_by_its_id_and_is_gone_when_its_cgroup_is(tmp_path: Path, leaf: str) -> None:
    cgroups = ContainerCgroups(tmp_path)
    assert cgroups.leaf(ID) is None
    (tmp_path / leaf).mkdir(parents=True)
    (tmp_path / leaf).with_name(f"cri-containerd-{'b2' * 32}.scope").mkdir()  # its sandbox
    assert [cgroups.leaf(ID), cgroups.leaf("c3" * 32)] == [tmp_path / leaf, None]
    (tmp_path / leaf).rmdir()
    assert cgroups.leaf(ID) is None


def test_a_crun_container_is_the_outermost_directory_of_its_id(tmp_path: Path) -> None:
    (tmp_path / "kubepods.slice" / f"crio-{ID}.scope" / "container").mkdir(parents=True)
    assert ContainerCgroups(tmp_path).leaf(ID) == tmp_path / "kubepods.slice" / f"crio-{ID}.scope"
