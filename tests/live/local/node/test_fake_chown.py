"""With one user id a change of owner succeeds and does nothing, for the kubelet alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_local.node import fake_chown
from local.tests.node.test_fake_chown import ONE


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
