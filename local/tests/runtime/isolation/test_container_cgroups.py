"""The groups of containers: limits, use, and what the kernel makes of them."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from cotenant_local.host import cgroup_claims
from cotenant_local.runtime.isolation import cgroup_settings, container_cgroups

AMOUNTS = ("cpu_quota", "cpu_period", "cpu_shares", "memory_limit_in_bytes", "memory_swap_limit_in_bytes")


def resources(*pages: tuple[str, int], **amounts: object) -> SimpleNamespace:
    nothing = {**dict.fromkeys(AMOUNTS, 0), "cpuset_cpus": "", "cpuset_mems": "", "unified": {}}
    hugepages = [SimpleNamespace(page_size=size, limit=limit) for size, limit in pages]
    return SimpleNamespace(**{**nothing, "hugepage_limits": hugepages, **amounts})


def group(folder: Path, *files: str, unified: bool) -> container_cgroups.ContainerCgroup:
    for name in files:
        (folder / name).touch()
    return container_cgroups.ContainerCgroup(dict.fromkeys(("cpu", "memory", "hugetlb"), folder), unified)


def test_limits_are_written_in_version_two(tmp_path: Path) -> None:
    ours = group(tmp_path, "cpu.max", "cpu.weight", "memory.max", "memory.swap.max", "hugetlb.2MB.max", unified=True)
    asked = resources(
        ("2MB", 0), cpu_quota=5, cpu_period=10, cpu_shares=2, memory_limit_in_bytes=7, memory_swap_limit_in_bytes=7
    )
    container_cgroups.apply(ours, asked)
    written = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert written == {
        "cpu.max": "5 10",
        "cpu.weight": "1",
        "memory.max": "7",
        "memory.swap.max": "0",
        "hugetlb.2MB.max": "0",
    }


def test_a_limit_that_the_kernel_does_not_know_is_refused_unless_there_is_nothing_to_limit(tmp_path: Path) -> None:
    container_cgroups.apply(group(tmp_path, unified=True), resources(("2MB", 0)))
    with pytest.raises(
        cgroup_settings.LimitError, match=r"hugetlb\.2MB\.max=2097152: the hugetlb controller of this machine"
    ):
        container_cgroups.apply(group(tmp_path, unified=True), resources(("2MB", 1 << 21)))


def test_use_is_read_in_version_two(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 1500\nuser_usec 1000\n")
    (tmp_path / "memory.current").write_text("9000\n")
    (tmp_path / "memory.stat").write_text("anon 4000\ninactive_file 3000\n")
    ours = group(tmp_path, unified=True)
    assert container_cgroups.usage(ours) == (1_500_000, 9000, 6000, 4000)
    assert ours.files() == [str(tmp_path / "cgroup.procs")]
    assert ours.oom_file == str(tmp_path / "memory.events")


@pytest.fixture
def unified() -> Iterator[tuple[Path, Path]]:
    """The kernel's version 2 hierarchy, which machines with version 1 often have too; and a cluster's part of it."""
    lines = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    root = next((Path(line[1]) for line in lines if line[2] == "cgroup2"), None)
    if root is None or "hugetlb" not in (root / "cgroup.controllers").read_text().split():
        pytest.skip("needs the hugetlb controller in a hierarchy of version 2")
    claim = cgroup_claims.claim(f"test-{os.getpid()}", root)
    if claim is None:
        pytest.skip("needs root")
    yield root, Path(claim.parent)
    os.close(claim.descriptor)
    cgroup_claims.sweep(root)


def test_version_two_of_the_kernel_takes_the_groups_the_limits_and_the_processes(unified: tuple[Path, Path]) -> None:
    root, cluster = unified
    parent = cluster / "node-1"
    groups = container_cgroups.NodeCgroups(str(parent), root=root)
    ours = groups.make("pod", "container", resources(("2MB", 4 << 20)))
    assert (parent / "pod" / "container" / "hugetlb.2MB.max").read_text() == "4194304\n"
    container_cgroups.apply(ours, resources(("2MB", 2 << 20)))
    assert (parent / "pod" / "container" / "hugetlb.2MB.max").read_text() == "2097152\n"
    with subprocess.Popen(["sleep", "1000"]) as program:
        for file in ours.files():
            Path(file).write_text(str(program.pid))
        assert Path(f"/proc/{program.pid}/cgroup").read_text().rstrip().endswith("/node-1/pod/container")
        program.kill()
    ours.remove()
    groups.remove("pod")
    assert [entry for entry in parent.iterdir() if entry.is_dir()] == []
