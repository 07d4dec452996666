"""One runtime per kind of user for the whole run: as root, and as an ordinary user in a user namespace."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import sandbox


def why_not(*, ordinary_user: bool) -> str:
    """Empty when a sandbox can be made here."""
    if not ordinary_user and os.geteuid() != 0:
        return "needs root"
    flags = ["-Urnmp"] if ordinary_user else ["-nmp"]
    probe = subprocess.run(
        ["unshare", *flags, "--fork", "--mount-proc", "true"], capture_output=True, text=True, check=False
    )
    return "" if probe.returncode == 0 else f"namespaces are not permitted here: {probe.stderr.strip()}"


@pytest.fixture(scope="session", params=["root", "ordinary user"])
def node(request: pytest.FixtureRequest) -> Iterator[sandbox.Kubelet]:
    ordinary = request.param == "ordinary user"
    if reason := why_not(ordinary_user=ordinary):
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="cri") as folder:
        Path(folder).chmod(0o755)
        kubelet = sandbox.run(Path(folder), ordinary_user=ordinary)
        yield kubelet
        kubelet.channel.close()
        kubelet.process.kill()
        kubelet.process.wait()
