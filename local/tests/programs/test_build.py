"""The keys of what is built, and how the compiler is asked for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_local.host import folders
from cotenant_local.programs import build, build_cache, go_toolchain


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "cotenant"


def test_the_key_changes_with_every_source_of_the_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = []
    monkeypatch.setattr(build_cache, "once", lambda kind, key, make: keys.append(key))
    source = tmp_path / "source"
    source.mkdir()
    for name, text in (("go.mod", "\tk8s.io/kubernetes v1.36.3\n"), ("main.go", "package main\n")):
        (source / name).write_text(text)
    monkeypatch.setattr(folders, "controlplane_source", lambda: source)
    build.programs()
    build.programs()
    (source / "main.go").write_text("package main // changed\n")
    build.programs()
    (source / "go.mod").write_text("\tk8s.io/kubernetes v1.36.4\n")
    build.programs()
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


GO = r"""#!/bin/sh
case "$1" in
  env) echo go1.26.9 ;;
  list) echo runtime ;;
  mod)
    for module in k8s.io/cri-api k8s.io/kubelet; do
      echo "{\"Path\": \"$module\", \"Dir\": \"$MODULES/$module\"}"
    done ;;
  build)
    printf '%s\n' "GOGC=$GOGC" "$@" > "$MODULES/asked"
    while [ "$1" != -o ]; do shift; done
    echo program > "$2controlplane"
    echo runtime >&2 ;;
esac
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Go that compiles nothing, and the module folders that it names."""
    found = tmp_path / "modules"
    for module, path in build.PROTOS.values():
        (found / module / path).parent.mkdir(parents=True)
        (found / module / path).write_text(f"// {module}\n")
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("MODULES", str(found))
    return found


def test_the_compiler_makes_no_debug_tables_and_inlines_only_what_every_request_runs_through(modules: Path) -> None:
    build.programs()
    asked = (modules / "asked").read_text().splitlines()
    flags = dict(word.removeprefix("-gcflags=").split("=", 1) for word in asked if word.startswith("-gcflags="))
    assert asked[:2] == ["GOGC=off", "build"]
    assert asked[-3:] == [".", "./forward", "./apifaults"]  # one build: what they share is compiled once
    assert next(iter(flags)) == "all"  # the last pattern that matches a package counts
    assert all("-dwarf=false" in words for words in flags.values())
    assert [pattern for pattern, words in flags.items() if "-l" in words.split()] == ["all"]
    assert {"std", "k8s.io/apimachinery/...", "k8s.io/apiserver/..."} <= flags.keys()


@pytest.mark.parametrize("packaged", [True, False])
def test_the_interfaces_are_those_that_came_with_packaged_programs_or_those_of_the_modules(
    modules: Path, monkeypatch: pytest.MonkeyPatch, packaged: bool
) -> None:
    programs = build.programs()
    text = 'syntax = "proto3";\nmessage Pod { string name = 1; }\n'
    for package, (module, path) in build.PROTOS.items():
        (modules / module / path).write_text(text)
        if packaged:
            (programs / package).mkdir()
            (programs / package / "api.proto").write_text(text)
    if packaged:
        monkeypatch.setattr(go_toolchain, "find", lambda *_: pytest.fail("it looks for Go"))
    stubs = build.stubs_path()
    assert sorted(path.name for path in (stubs / "cotenant_cri").iterdir()) == [
        "__init__.py",
        "api.proto",
        "api_pb2.py",
        "api_pb2.pyi",
        "api_pb2_grpc.py",
    ]


def test_the_programs_are_built_by_a_python_that_has_nothing_installed(modules: Path, cache: Path) -> None:
    roots = (str(folders.checkout() / root) for root in ("operator", "local"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(roots)}
    command = [sys.executable, "-S", "-m", "cotenant_local.programs"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert [(made / "controlplane").read_text() for made in cache.glob("programs-*")] == ["program\n"]
