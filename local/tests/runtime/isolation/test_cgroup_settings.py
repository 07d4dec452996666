"""What is written for a limit in both versions of cgroups."""

from types import SimpleNamespace

import pytest

from cotenant_local.runtime.isolation import cgroup_settings

AMOUNTS = ("cpu_quota", "cpu_period", "cpu_shares", "memory_limit_in_bytes", "memory_swap_limit_in_bytes")
Settings = list[tuple[str, str, str]]


def resources(*pages: tuple[str, int], **amounts: object) -> SimpleNamespace:
    nothing = {**dict.fromkeys(AMOUNTS, 0), "cpuset_cpus": "", "cpuset_mems": "", "unified": {}}
    hugepages = [SimpleNamespace(page_size=size, limit=limit) for size, limit in pages]
    return SimpleNamespace(**{**nothing, "hugepage_limits": hugepages, **amounts})


@pytest.mark.parametrize(
    ("asked", "first", "second"),
    [
        (resources(), [], []),
        (resources(cpu_shares=1024), [("cpu", "cpu.shares", "1024")], [("cpu", "cpu.weight", "39")]),
        (
            resources(cpu_quota=50000, cpu_period=100000),
            [("cpu", "cpu.cfs_period_us", "100000"), ("cpu", "cpu.cfs_quota_us", "50000")],
            [("cpu", "cpu.max", "50000 100000")],
        ),
        (
            resources(cpu_quota=-1),
            [("cpu", "cpu.cfs_period_us", "100000"), ("cpu", "cpu.cfs_quota_us", "-1")],
            [("cpu", "cpu.max", "max 100000")],
        ),
        (
            resources(memory_limit_in_bytes=1 << 20),
            [("memory", "memory.limit_in_bytes", "1048576")],
            [("memory", "memory.max", "1048576")],
        ),
        (
            resources(memory_limit_in_bytes=1 << 20, memory_swap_limit_in_bytes=3 << 20),
            [("memory", "memory.limit_in_bytes", "1048576"), ("memory", "memory.memsw.limit_in_bytes", "3145728")],
            [("memory", "memory.max", "1048576"), ("memory", "memory.swap.max", "2097152")],
        ),
        (
            resources(("2MB", 1 << 22)),
            [("hugetlb", "hugetlb.2MB.limit_in_bytes", "4194304")],
            [("hugetlb", "hugetlb.2MB.max", "4194304")],
        ),
    ],
)
def test_limits_become_the_files_of_either_version(asked: object, first: Settings, second: Settings) -> None:
    assert cgroup_settings.settings(asked, unified=False) == first
    assert cgroup_settings.settings(asked, unified=True) == second


def test_what_only_version_two_has_is_refused_in_version_one() -> None:
    asked = resources(cpuset_cpus="0-1", cpuset_mems="0", unified={"memory.high": "9"})
    want = [("cpuset", "cpuset.cpus", "0-1"), ("cpuset", "cpuset.mems", "0"), ("memory", "memory.high", "9")]
    assert cgroup_settings.settings(asked, unified=True) == want
    with pytest.raises(cgroup_settings.LimitError, match="with version 2 of cgroups only"):
        cgroup_settings.settings(asked, unified=False)
    with pytest.raises(cgroup_settings.LimitError, match=r"memory\.high=9: this machine has version 1 of cgroups"):
        cgroup_settings.settings(resources(unified={"memory.high": "9"}), unified=False)


def test_limits_that_nobody_enforces_are_named() -> None:
    assert cgroup_settings.unenforced(resources(("2MB", 0), unified={"memory.oom.group": "1"})) == ""
    asked = resources(("2MB", 4 << 20), cpu_quota=150_000, memory_limit_in_bytes=512 << 20)
    want = "limits not enforced (no cgroup rights): CPU 1.5, memory 512 MiB, 4 MiB of 2MB pages"
    assert cgroup_settings.unenforced(asked) == want
