"""Whose cgroups are whose: those of living clusters stay, those of dead ones go, in both versions of the hierarchy."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_local import cgroups

FOLDERS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
ROOTS = [root for root in FOLDERS if (root / "cgroup.controllers").exists() or (root / "memory").is_dir()]
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not ROOTS, reason="needs root and a hierarchy of cgroups")


@pytest.fixture(params=ROOTS, ids=str)
def root(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(cgroups, "PREFIX", f"test{os.getpid()}-")  # not those of the clusters of this machine
    yield request.param
    cgroups.sweep(request.param)
    assert groups(request.param) == []


def groups(root: Path) -> list[str]:
    here = root if (root / "cgroup.controllers").exists() else root / "memory"
    return sorted(folder.name.removeprefix(cgroups.PREFIX) for folder in here.glob(f"{cgroups.PREFIX}*"))


def inside(claim: cgroups.Claim, root: Path) -> Path:
    """A container's group, where the node's runtime would make it."""
    top = Path(claim.parent) if (root / "cgroup.controllers").exists() else root / "memory" / claim.parent.strip("/")
    (top / "node" / "pod").mkdir(parents=True)
    return top / "node" / "pod"


def test_what_a_cluster_left_is_removed_and_what_lives_is_not(root: Path) -> None:
    dead, living = cgroups.claim("dead", root), cgroups.claim("living", root)
    assert dead
    assert living
    inside(dead, root)
    inside(living, root)
    os.close(dead.descriptor)
    cgroups.sweep(root)
    assert groups(root) == ["living"]
    os.close(living.descriptor)


def test_two_clusters_of_one_name_do_not_share_a_group(root: Path) -> None:
    one, two = cgroups.claim("same", root), cgroups.claim("same", root)
    assert one
    assert two
    assert groups(root) == ["same", "same.2"]
    os.close(one.descriptor)
    cgroups.sweep(root)
    assert groups(root) == ["same.2"]
    os.close(two.descriptor)


def test_a_claim_is_held_by_whoever_inherits_it(root: Path) -> None:
    claim = cgroups.claim("handed-on", root)
    assert claim
    heir = [sys.executable, "-c", "input()"]
    with subprocess.Popen(heir, stdin=subprocess.PIPE, pass_fds=[claim.descriptor]) as process:
        os.close(claim.descriptor)
        cgroups.sweep(root)
        assert groups(root) == ["handed-on"]
        process.kill()
    cgroups.sweep(root)
    assert groups(root) == []


def test_nobody_is_thrown_out_of_a_group(root: Path) -> None:
    claim = cgroups.claim("in-use", root)
    assert claim
    group = inside(claim, root)
    os.close(claim.descriptor)
    with subprocess.Popen(["sleep", "1000"]) as process:
        (group / "cgroup.procs").write_text(str(process.pid))
        cgroups.sweep(root)
        assert group.is_dir()
        process.kill()
    cgroups.sweep(root)
    assert groups(root) == []
