"""The keys of what is built."""

from pathlib import Path

import pytest

from cotenant_local.host import folders
from cotenant_local.programs import build, build_cache


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
