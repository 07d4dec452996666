"""What a machine lacks for a sandbox, and the command that would help."""

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from cotenant_local.cluster import sandbox
from cotenant_local.host.errors import LocalError


def missing(monkeypatch: pytest.MonkeyPatch, *, there: set[str]) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path: f"/bin/{name}" if name in there else None)


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"unshare", "nsenter", "ip", "apt-get"}, "Run: sudo apt-get install -y nftables"),
        ({"unshare", "nsenter", "dnf"}, "Run: sudo dnf install -y iproute nftables"),
        ({"unshare", "nsenter", "ip"}, "programs are missing: install nftables and try again"),
    ],
)
def test_a_missing_program_is_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch, there: set[str], said: str
) -> None:
    missing(monkeypatch, there=there)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LocalError) as refusal:
        sandbox.check()
    assert said in str(refusal.value)


def test_forbidden_namespaces_are_told_with_the_switch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    switch = tmp_path / "apparmor_restrict_unprivileged_userns"
    switch.write_text("1\n")
    monkeypatch.setattr(sandbox, "SWITCHES", ((str(tmp_path / "absent"), "0", "no"), (str(switch), "1", "the command")))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name, path: name)
    refused = SimpleNamespace(returncode=1, stderr="unshare: unshare failed: Operation not permitted")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(LocalError, match=rf"{switch} is 1. Run: the command\nor run the same command as root"):
        sandbox.check()
