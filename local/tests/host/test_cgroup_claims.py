"""Whose cgroups are whose: those of living clusters stay, those of dead ones go, in both versions of the hierarchy."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.host import cgroup_claims
from local.tests.host.ordinary_user import User, readable_python

FOLDERS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
ROOTS = [root for root in FOLDERS if (root / "cgroup.controllers").exists() or (root / "memory").is_dir()]
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not ROOTS, reason="needs root and a hierarchy of cgroups")


@pytest.fixture(params=ROOTS, ids=str)
def root(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(cgroup_claims, "PREFIX", f"test{os.getpid()}-")  # not those of the clusters of this machine
    yield request.param
    cgroup_claims.sweep(request.param)
    assert groups(request.param) == []


def groups(root: Path) -> list[str]:
    here = root if (root / "cgroup.controllers").exists() else root / "memory"
    return sorted(folder.name.removeprefix(cgroup_claims.PREFIX) for folder in here.glob(f"{cgroup_claims.PREFIX}*"))


def inside(claim: cgroup_claims.CgroupClaim, root: Path) -> Path:
    """A container's group, where the node's runtime would make it."""
    top = Path(claim.parent) if (root / "cgroup.controllers").exists() else root / "memory" / claim.parent.strip("/")
    (top / "node" / "pod").mkdir(parents=True)
    return top / "node" / "pod"


def test_what_a_cluster_left_is_removed_and_what_lives_is_not(root: Path) -> None:
    dead, living = cgroup_claims.claim("dead", root), cgroup_claims.claim("living", root)
    assert dead
    assert living
    inside(dead, root)
    inside(living, root)
    os.close(dead.descriptor)
    cgroup_claims.sweep(root)
    assert groups(root) == ["living"]
    os.close(living.descriptor)


def test_two_clusters_of_one_name_do_not_share_a_group(root: Path) -> None:
    one, two = cgroup_claims.claim("same", root), cgroup_claims.claim("same", root)
    assert one
    assert two
    assert groups(root) == ["same", "same.2"]
    os.close(one.descriptor)
    cgroup_claims.sweep(root)
    assert groups(root) == ["same.2"]
    os.close(two.descriptor)


def test_a_claim_is_held_by_whoever_inherits_it(root: Path) -> None:
    claim = cgroup_claims.claim("handed-on", root)
    assert claim
    heir = [sys.executable, "-c", "input()"]
    with subprocess.Popen(heir, stdin=subprocess.PIPE, pass_fds=[claim.descriptor]) as process:
        os.close(claim.descriptor)
        cgroup_claims.sweep(root)
        assert groups(root) == ["handed-on"]
        process.kill()
    cgroup_claims.sweep(root)
    assert groups(root) == []


def test_nobody_is_thrown_out_of_a_group(root: Path) -> None:
    claim = cgroup_claims.claim("in-use", root)
    assert claim
    group = inside(claim, root)
    os.close(claim.descriptor)
    with subprocess.Popen(["sleep", "1000"]) as process:
        (group / "cgroup.procs").write_text(str(process.pid))
        cgroup_claims.sweep(root)
        assert group.is_dir()
        process.kill()
    cgroup_claims.sweep(root)
    assert groups(root) == []


def test_a_cluster_that_takes_the_name_of_one_just_swept_keeps_its_group(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = cgroup_claims.claim("again", root)
    assert dead
    last = inside(dead, root)
    if not (root / "cgroup.controllers").exists():
        last = root / "pids" / dead.parent.strip("/") / "node" / "pod"
        last.mkdir(parents=True)
    os.close(dead.descriptor)
    heirs: list[cgroup_claims.CgroupClaim | None] = []

    def pause(_seconds: float) -> None:
        if not heirs:
            heirs.append(cgroup_claims.claim("again", root))
            process.kill()
            process.wait()

    monkeypatch.setattr(time, "sleep", pause)
    with subprocess.Popen(["sleep", "1000"]) as process:
        (last / "cgroup.procs").write_text(str(process.pid))
        cgroup_claims.sweep(root)
    (heir,) = heirs
    assert heir
    container = inside(heir, root)
    cgroup_claims.sweep(root)
    assert container.is_dir()
    os.close(heir.descriptor)


NOBODY = User(65534, ())
AS_NOBODY = """
import json, sys
from pathlib import Path
from cotenant_local.host import cgroup_claims
cgroup_claims.PREFIX, cgroup_claims.DIVIDED, root = sys.argv[1], tuple(sys.argv[2].split()), Path(sys.argv[3])
claims = [cgroup_claims.claim("dead", root), cgroup_claims.claim("mine", root)]
if all(claims):
    cgroup_claims.os.close(claims[0].descriptor)
    cgroup_claims.sweep(root)
parents = [claim and claim.parent for claim in claims]
own = Path("/proc/self/cgroup").read_text()
print(json.dumps({"parents": parents, "why": cgroup_claims.why_none(root), "own": own}))
"""


@pytest.fixture
def part(root: Path) -> Iterator[Path]:
    """A group for an ordinary user, not yet given to one."""
    if not (root / "cgroup.controllers").exists():
        pytest.skip("version 1 of cgroups is for root alone")
    cgroup_claims._delegate(root)
    folder = root / f"part-{os.getpid()}"
    folder.mkdir()
    yield folder
    cgroup_claims._remove(folder)


def ask_as_nobody(part: Path, *, divided: str) -> dict[str, Any]:
    """What an ordinary user whose process is in that group gets for two clusters, of which one ends."""
    python, path = readable_python()
    enter = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(part)]
    program = [python, "-c", AS_NOBODY, cgroup_claims.PREFIX, divided, str(part.parent)]
    done = subprocess.run(
        [*enter, *NOBODY.become(), *program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def give(part: Path) -> None:
    for file in ("", "cgroup.procs", "cgroup.subtree_control"):
        os.chown(part / file, NOBODY.uid, NOBODY.uid)


def test_an_ordinary_user_divides_the_part_that_is_his(part: Path) -> None:
    give(part)
    available = (part / "cgroup.controllers").read_text().split()
    answer = ask_as_nobody(part, divided=" ".join(available))
    assert answer["parents"] == [str(part / f"{cgroup_claims.PREFIX}{name}") for name in ("dead", "mine")]
    assert f"0::/{part.name}/{cgroup_claims.ASIDE}\n" in answer["own"]
    assert sorted(group.name for group in part.iterdir() if group.is_dir()) == [
        cgroup_claims.ASIDE,
        f"{cgroup_claims.PREFIX}mine",
    ]
    limited = part / f"{cgroup_claims.PREFIX}mine"
    assert (limited / "cgroup.subtree_control").read_text().split() == [
        c for c in available if c in cgroup_claims.CONTROLLERS
    ]


def test_an_ordinary_user_without_a_part_is_told_how_to_get_one(part: Path) -> None:
    answer = ask_as_nobody(part, divided="")
    assert answer["parents"] == [None, None]
    assert "start the cluster with: systemd-run --user --scope --property=Delegate=yes" in answer["why"]


def test_a_part_without_the_controllers_that_matter_is_left_alone(part: Path) -> None:
    give(part)
    answer = ask_as_nobody(part, divided="cpu-of-tomorrow")
    assert answer["parents"] == [None, None]
    assert "are yours, but without cpu-of-tomorrow" in answer["why"]
    assert [group for group in part.iterdir() if group.is_dir()] == []
