"""Code as a ConfigMap volume shows it, and what a program finds where it starts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_worker.host import workspace
from cotenant_worker.host.workspace import (
    link_entries,
    make_user_packages,
    named_there,
    remove_stale_locks,
    trust_repositories,
    working_directory,
)


def volume(at: Path) -> Path:
    """`..data` → a folder with a date, and a link per key: what the kubelet makes of a ConfigMap."""
    dated = at / "..2026_11_21"
    dated.mkdir(parents=True)
    (dated / "train.py").write_text("v1")
    (at / "..data").symlink_to(dated.name)
    (at / "train.py").symlink_to("..data/train.py")
    return at


def test_a_program_finds_its_code_and_may_write_beside_it(tmp_path: Path) -> None:
    start = link_entries(volume(tmp_path / "code"), tmp_path / "scratch")
    (start / "snapshot.pt").write_text("step 1")
    assert {entry.name: entry.read_text() for entry in start.iterdir()} == {"train.py": "v1", "snapshot.pt": "step 1"}
    assert sorted(entry.name for entry in (tmp_path / "code").iterdir()) == ["..2026_11_21", "..data", "train.py"]


def test_a_second_start_keeps_what_the_first_one_wrote(tmp_path: Path) -> None:
    code = volume(tmp_path / "code")
    start = link_entries(code, tmp_path / "scratch")
    (start / "snapshot.pt").write_text("step 1")
    (start / "train.py").unlink()
    (start / "train.py").write_text("the program's own")
    assert link_entries(code, tmp_path / "scratch") == start
    found = {entry.name: entry.read_text() for entry in start.iterdir()}
    assert found == {"train.py": "the program's own", "snapshot.pt": "step 1"}


def repository(at: Path) -> Path:
    """Code on a volume. `runs/` has old output of its author, `data/digits/` a script that writes beside itself."""
    files = ("train.py", "runs/monday/events", "data/digits/prepare.py", ".dvc/config")
    for file in (*files, ".git/HEAD", ".venv/pyvenv.cfg", "pkg/__pycache__/a.pyc"):
        (at / file).parent.mkdir(parents=True, exist_ok=True)
        (at / file).write_text(file)
    (at / "latest").symlink_to("runs")
    return at


def test_a_program_may_write_into_the_folders_of_its_code(tmp_path: Path) -> None:
    code = repository(tmp_path / "code")
    start = link_entries(code, tmp_path / "scratch")
    (start / "runs" / "tuesday").mkdir()
    (start / "data" / "digits" / "train.bin").write_text("prepared")
    assert link_entries(code, tmp_path / "scratch") == start
    assert sorted(str(path.relative_to(start)) for path in start.rglob("*") if not path.is_dir()) == [
        ".dvc/config",
        "data/digits/prepare.py",
        "data/digits/train.bin",
        "runs/monday/events",
        "train.py",
    ]
    assert (start / "runs" / "monday" / "events").read_text() == "runs/monday/events"
    linked = [".git", ".venv", "latest", "pkg/__pycache__"]
    assert [name for name in linked if (start / name).is_symlink() and (start / name).is_dir()] == linked
    assert not (code / "runs" / "tuesday").exists()


def test_a_program_may_change_small_files_of_its_code_and_large_ones_are_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nbconvert --inplace writes the notebook that it runs, DVC its dvc.lock, MLflow its database."""
    monkeypatch.setattr(workspace, "_SMALL_BYTES", 100)
    monkeypatch.setattr(workspace, "_MOST_BYTES", 150)
    code = tmp_path / "code"
    code.mkdir()
    for name, size in (("train.ipynb", 500), ("dvc.lock", 80), ("model.pt", 101)):
        (code / name).write_bytes(b"1" * size)
        (code / name).chmod(0o444)
    start = link_entries(code, tmp_path / "scratch")
    assert [(start / name).is_symlink() for name in ("train.ipynb", "dvc.lock", "model.pt")] == [False, False, True]
    for name in ("train.ipynb", "dvc.lock"):
        assert (start / name).stat().st_mode & 0o777 == 0o644, "its own"
        (start / name).write_text("changed")
    assert link_entries(code, tmp_path / "scratch") == start
    assert {(start / name).read_text() for name in ("train.ipynb", "dvc.lock")} == {"changed"}
    assert {len((code / name).read_text()) for name in ("train.ipynb", "dvc.lock")} == {500, 80}


def test_small_files_are_copied_as_long_as_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "_MOST_BYTES", 150)
    (tmp_path / "code").mkdir()
    for number in range(4):
        (tmp_path / "code" / f"{number}.json").write_bytes(b"1" * 70)
    start = link_entries(tmp_path / "code", tmp_path / "scratch")
    assert [entry.is_symlink() for entry in start.iterdir()].count(True) == 2


COMPILES = """
import os
open(os.path.join(os.path.dirname(__file__), "helpers.py"), "w").write("WORD = 'compiled'")
from pkg import helpers
print(helpers.WORD)
"""


def test_a_module_may_compile_what_it_needs_beside_itself(tmp_path: Path) -> None:
    """Megatron-LM runs make in the folder of its data sets."""
    code = tmp_path / "code"
    (code / "pkg").mkdir(parents=True)
    (code / "pkg" / "datasets.py").write_text(COMPILES)
    (code / "train.py").write_text("import pkg.datasets")
    start = link_entries(code, tmp_path / "scratch")
    done = subprocess.run([sys.executable, "train.py"], cwd=start, capture_output=True, text=True, check=False)
    assert done.stdout == "compiled\n", done.stderr
    assert [path.name for path in (code / "pkg").iterdir() if path.is_file()] == ["datasets.py"]


@pytest.mark.parametrize("limit", ["_MOST_LINKS", "_MOST_S"])
def test_a_large_or_slow_volume_is_linked_folder_by_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(workspace, limit, {"_MOST_LINKS": 7, "_MOST_S": -1.0}[limit])
    code = repository(tmp_path / "code")
    for number in range(20):
        (code / f"{number}.py").touch()
    start = link_entries(code, tmp_path / "scratch")
    assert sorted(entry.name for entry in start.iterdir()) == sorted(entry.name for entry in code.iterdir())
    assert all(entry.is_symlink() for entry in start.iterdir() if entry.is_dir())


def test_a_rank_that_runs_may_make_a_folder_while_the_next_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code's folder is too large to be copied, so it would be linked."""
    code, scratch, entries = tmp_path / "code", tmp_path / "scratch", workspace._entries
    (code / "runs").mkdir(parents=True)

    def made_meanwhile(folder: Path, most: int | None) -> list[os.DirEntry[str]] | None:
        if folder.name == "runs":
            (scratch / "runs").mkdir()
            return None
        return entries(folder, most)

    monkeypatch.setattr(workspace, "_entries", made_meanwhile)
    assert workspace.link_entries(code, scratch) == scratch
    assert not (scratch / "runs").is_symlink()


def test_code_that_can_be_written_to_is_the_start_itself_and_without_code_it_is_the_root(tmp_path: Path) -> None:
    assert working_directory(tmp_path, tmp_path / "scratch") == tmp_path
    assert working_directory(tmp_path / "none", tmp_path / "scratch") == Path("/")
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize(
    ("command", "want"),
    [
        pytest.param(("bash", "{code}/run.sh", "--x"), ("bash", "{start}/run.sh", "--x"), id="a run script"),
        pytest.param(("{code}/data/digits/prepare.py",), ("{start}/data/digits/prepare.py",), id="in a folder"),
        pytest.param(("{code}/run.sh",), ("{start}/run.sh",), id="the program itself"),
        pytest.param(("python", "train.py"), ("python", "train.py"), id="by its name"),
        pytest.param(("python", "{code}/absent.py"), ("python", "{code}/absent.py"), id="one that is not there"),
        pytest.param(("python", "a.py", "{code}/data"), ("python", "a.py", "{code}/data"), id="a folder of data"),
        pytest.param(("python", "/opt/app/train.py"), ("python", "/opt/app/train.py"), id="elsewhere"),
    ],
)
@pytest.mark.parametrize("writable", [False, True])
def test_a_script_that_is_named_by_its_path_in_the_code_runs_where_it_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], want: tuple[str, ...], writable: bool
) -> None:
    code, start = repository(tmp_path / "code"), tmp_path / "scratch"
    (code / "run.sh").touch()
    monkeypatch.setattr("os.access", lambda *_: writable)
    places = {"code": code, "start": code if writable else start}
    typed = tuple(part.format(**places) for part in command)
    assert named_there(typed, code, start) == tuple(part.format(**places) for part in want)


@pytest.mark.parametrize(
    ("env", "removed"),
    [
        pytest.param({"HOME": "{tmp}"}, True, id="in the pod's scratch space"),
        pytest.param({"HOME": "/home/me", "TORCH_EXTENSIONS_DIR": "{tmp}/.cache/torch_extensions"}, True, id="named"),
        pytest.param({"HOME": "{tmp}/../elsewhere"}, False, id="on a volume that others may mount"),
    ],
)
def test_a_start_in_place_finds_no_lock_of_a_rank_that_was_killed(
    tmp_path: Path, env: dict[str, str], removed: bool
) -> None:
    cache = tmp_path / ".cache" / "torch_extensions" / "py312_cu130"
    for name in ("build.ninja", "lock"):
        (cache / "kernels").mkdir(parents=True, exist_ok=True)
        (cache / "kernels" / name).touch()
    remove_stale_locks({name: value.format(tmp=tmp_path) for name, value in env.items()}, scratch=tmp_path)
    left = {path.name for path in (cache / "kernels").iterdir()}
    assert left == ({"build.ninja"} if removed else {"build.ninja", "lock"})


INSTALLS = """
import os, site
with open(os.path.join(site.getusersitepackages(), "just_installed.py"), "w") as file:
    file.write("WORD = 'installed'")
import just_installed
print(just_installed.WORD)
"""


@pytest.mark.parametrize("name", ["HOME", "PYTHONUSERBASE"])
def test_a_program_may_import_what_it_has_installed_itself(tmp_path: Path, name: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": "/", name: str(tmp_path)}
    make_user_packages(env, scratch=tmp_path)
    python = os.path.realpath(sys.executable)  # a virtual environment may not look there
    done = subprocess.run([python, "-c", INSTALLS], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "installed\n", done.stderr


def test_no_folder_of_packages_is_made_outside_the_pods_scratch_space(tmp_path: Path) -> None:
    make_user_packages({"HOME": str(tmp_path / "home")}, scratch=tmp_path / "scratch")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("theirs", ["", "[user]\n\tname = me\n"], ids=["without settings", "with settings"])
def test_git_tells_a_program_the_commit_of_code_that_belongs_to_another_user(tmp_path: Path, theirs: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    subprocess.run(["git", "init", "-q", str(tmp_path / "code")], env=env, check=True)
    if theirs:
        (tmp_path / ".gitconfig").write_text(theirs)
    trust_repositories(env, scratch=tmp_path)
    asks = ["git", "-C", str(tmp_path / "code"), "rev-parse", "--is-inside-work-tree"]
    done = subprocess.run(asks, env={**env, "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}, capture_output=True, check=False)
    assert (done.returncode == 0) is not bool(theirs)
    assert (tmp_path / ".gitconfig").read_text().startswith(theirs)
