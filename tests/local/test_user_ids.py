"""One user id or a range of them: what an ordinary user is told, and what changing an owner does with one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_local.host import user_ids
from cotenant_local.node import fake_chown
from cotenant_local.runtime.isolation.id_map import IdMap

ONE = IdMap(uids=((0, 1),), gids=((0, 1),), may_set_groups=False)
RANGE = IdMap(uids=((0, 1), (1, 65535)), gids=((0, 1), (1, 65535)), may_set_groups=True)


def test_only_a_kubelet_with_one_user_id_lives_in_the_world_of_one_user() -> None:
    assert fake_chown.wrap(["kubelet", "-v"], RANGE) == ["kubelet", "-v"]
    assert fake_chown.wrap(["kubelet", "-v"], ONE)[-3:] == ["cotenant_local.node.fake_chown", "kubelet", "-v"]


@pytest.mark.sandbox
def test_with_one_user_id_every_change_of_owner_succeeds_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch()
    script = (
        "import os, sys; path = sys.argv[1]; fd = os.open(path, os.O_RDONLY)\n"
        "os.chown(path, 1234, -1); os.lchown(path, -1, 77); os.fchown(fd, 1234, 77)\n"
        "os.chown(os.path.basename(path), 5, 5, dir_fd=os.open(os.path.dirname(path), os.O_RDONLY))\n"
        "print(os.stat(path).st_uid, os.stat(path).st_gid)"
    )
    inner = fake_chown.wrap([sys.executable, "-c", script, str(file)], ONE)
    unshare = ["unshare", "--user", "--map-root-user"]
    plain = subprocess.run(
        [*unshare, sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=False
    )
    assert "Invalid argument" in plain.stderr  # what the kubelet would meet
    done = subprocess.run([*unshare, *inner], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0 0\n", "")
    assert file.stat().st_uid == os.geteuid()


def test_a_range_is_of_no_use_where_containers_could_not_read_their_image(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "closed").mkdir(mode=0o750)
    assert user_ids.closed_to_others([tmp_path / "open", tmp_path / "absent"]) is None
    assert user_ids.closed_to_others([tmp_path / "open", tmp_path / "closed"]) == tmp_path / "closed"


@pytest.mark.parametrize(
    ("helpers", "ranges", "said"),
    [
        ((), "", "newuidmap and newgidmap are not installed (on Debian and Ubuntu: sudo apt-get install uidmap)"),
        (user_ids.HELPERS, "", "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "),
        (user_ids.HELPERS, "somebody:1:2\n", "has no range in"),
    ],
)
def test_who_has_one_id_only_is_told_what_would_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helpers: tuple[str, ...], ranges: str, said: str
) -> None:
    for helper in helpers:
        (tmp_path / helper).touch(mode=0o755)
    (tmp_path / "ranges").write_text(ranges)
    monkeypatch.setattr(user_ids, "RANGES", (tmp_path / "ranges",))
    monkeypatch.setattr(user_ids, "_path", lambda: str(tmp_path))
    assert said in user_ids.why_one.__wrapped__()
