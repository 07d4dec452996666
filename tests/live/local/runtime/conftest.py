"""One runtime per kind of user for the whole run: as root, and as an ordinary user with one id or a range of them."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant_local.host import user_ids
from local.tests.host.ordinary_user import User
from tests.live.local.runtime import sandbox


def ordinary_user(*, ranged: bool) -> User | None:
    """The ordinary user that a test of root becomes; None if no user has a range of ids."""
    if not ranged:
        return User(65534 if os.geteuid() == 0 else os.geteuid(), user_ids.ONE)
    if not all(map(shutil.which, user_ids.HELPERS)) or not all(file.exists() for file in user_ids.RANGES):
        return None
    owners = {line.split(":")[0] for line in user_ids.RANGES[0].read_text().splitlines()}
    known = [user.pw_uid for user in pwd.getpwall() if user.pw_name in owners and user.pw_uid]
    mine = [uid for uid in known if os.geteuid() in {0, uid}]
    return User(mine[0], user_ids.RANGE) if mine else None


def why_not(user: User | None) -> str:
    """Why no sandbox can be made here; empty if one can."""
    if user is None:
        return "" if os.geteuid() == 0 else "needs root"
    command = [*user.become(), "unshare", *user.flags, "--net", "--mount", "--pid", "--fork", "--mount-proc", "true"]
    probe = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    return "" if probe.returncode == 0 else f"namespaces are not permitted here: {probe.stderr.strip()}"


@pytest.fixture(scope="session", params=["root", "ordinary user", "ordinary user with a range of ids"])
def node(request: pytest.FixtureRequest) -> Iterator[sandbox.Kubelet]:
    user = None if request.param == "root" else ordinary_user(ranged="range" in request.param)
    if user is None and request.param != "root":
        pytest.skip("nobody here has a range of subordinate ids")
    if reason := why_not(user):
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="cri") as folder:
        Path(folder).chmod(0o755)
        kubelet = sandbox.run(Path(folder), user)
        yield kubelet
        kubelet.channel.close()
        kubelet.process.kill()
        kubelet.process.wait()
