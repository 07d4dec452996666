"""A working folder as a ConfigMap: what travels, how a tree is unpacked, what is too much."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cotenant.sdk import working_folder
from cotenant.sdk.working_folder import FolderError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("secret")
    return tmp_path


def test_what_is_hidden_left_behind_or_named_does_not_travel(here: Path) -> None:
    for name in ("data/big.bin", "pkg/mod.py", "__pycache__/x.pyc", "notes.txt", "pkg/notes.txt"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text("x")
    (here / working_folder.IGNORE).write_text("# comment\ndata/\nnotes.txt\n")
    assert [name for name, _ in working_folder.read_folder(here).files] == ["pkg/mod.py", "train.py"]


def test_a_tree_travels_as_an_archive_that_is_run_from_where_it_is_unpacked(here: Path, tmp_path: Path) -> None:
    (here / "pkg").mkdir()
    (here / "pkg" / "mod.py").write_text("WORD = 'from the tree'\n")
    (here / "train.py").write_text("import sys, pkg.mod, pathlib\nprint(pkg.mod.WORD, sys.argv[1:], "
                                   "pathlib.Path('pkg').is_dir())\n")  # fmt: skip
    found = working_folder.read_folder(here)
    at = in_pod(found, tmp_path)
    command = found.command("train.py", ["--epochs", "3"])
    done = subprocess.run([sys.executable, *command[1:]], cwd=at, capture_output=True, text=True, check=True)
    assert done.stdout == "from the tree ['--epochs', '3'] True\n"


SHELL, MODULE = ["bash", "run.sh"], [sys.executable, "-m", "pkg.mod"]


@pytest.mark.parametrize(
    ("tree", "script", "command"),
    [(True, "run.sh", []), (True, "", SHELL), (True, "", MODULE), (False, "run.sh", []), (False, "", SHELL)],
)
def test_shell_scripts_and_commands_begin_in_the_folder_too(
    here: Path, tmp_path: Path, tree: bool, script: str, command: list[str]
) -> None:
    (here / "run.sh").write_text('cat train.py >&2; echo hello "$@"\n')
    if tree:
        (here / "pkg").mkdir()
        (here / "pkg" / "mod.py").write_text("import sys, train\nprint(*sys.argv[1:])\n")
    found = working_folder.read_folder(here)
    words = found.command(script, ["7"]) if script else found.begun([*command, "7"])
    words = [sys.executable if one == "python" else one for one in words]
    done = subprocess.run(words, cwd=in_pod(found, tmp_path), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["hello", "7"]


def in_pod(folder: working_folder.Folder, tmp_path: Path) -> Path:
    """Folder with what the ConfigMap brings."""
    code = folder.config_map("c", "red")
    at = tmp_path / "pod"
    at.mkdir()
    for name, text in code["data"].items():
        (at / name).write_text(text)
    for name, text in code.get("binaryData", {}).items():
        (at / name).write_bytes(base64.b64decode(text))
    return at


def test_the_same_files_are_the_same_code_and_others_are_another(here: Path) -> None:
    (here / "pkg").mkdir()
    (here / "pkg" / "a.py").write_text("1")
    first = working_folder.read_folder(here)
    (here / "pkg" / "a.py").touch()
    again = working_folder.read_folder(here)
    assert (again.digest, again.config_map("c", "n")) == (first.digest, first.config_map("c", "n"))
    (here / "pkg" / "a.py").write_text("2")
    assert working_folder.read_folder(here).digest != first.digest


def test_what_is_too_large_is_refused_with_the_largest_files(here: Path) -> None:
    (here / "weights.bin").write_bytes(bytes(range(256)) * 4_000)
    with pytest.raises(FolderError, match=r"the largest: weights.bin \(1000 KiB\).*\.cotenantignore"):
        working_folder.read_folder(here).config_map("c", "n")


def test_too_many_files_are_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_folder, "FILES_MAX", 0)
    with pytest.raises(FolderError, match="more than 0 files"):
        working_folder.read_folder(here)


def test_an_archive_is_read_by_everybody(here: Path) -> None:
    (here / "a b.txt").write_text("x")
    binary = working_folder.read_folder(here).config_map("c", "n")["binaryData"][working_folder.ARCHIVE]
    names = zipfile.ZipFile(io.BytesIO(base64.b64decode(binary))).namelist()
    assert names == ["a b.txt", "train.py"]
    assert json.dumps(names)
