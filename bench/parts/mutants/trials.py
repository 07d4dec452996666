"""One run of the tests in a process of its own: on a copy of the checkout with a mutant written into it, or on what
is loaded already.

A copy is what a mutant of a module's body needs: its constants are read by others when they are imported.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from bench.parts.mutants.sites import Mutant

ROOT = Path(__file__).resolve().parents[3]
PLAIN = "not cluster and not sandbox and not ray and not frameworks and not containers and not gpu"
SOURCE_ROOTS = ("operator", "worker", "local", ".")
OPTIONS = ("-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-W", "ignore")
BROKEN = 99
"""The exit code of a fork that did not come as far as pytest. Pytest's own: 1 to 4, whatever a mutant breaks."""
NOTHING_RAN = 5
"""Pytest's exit code where no test of its files is a plain one."""


@dataclass(frozen=True)
class Area:
    """A package and the test folders that are run for it."""

    source: str
    tests: tuple[str, ...]
    mirrored: bool = False
    """A mutant is run by the test files that have the name of its module alone."""


def mirror_of(source: str) -> str:
    """The name of the test file that mirrors a module."""
    return f"test_{Path(source).stem}.py"


@dataclass(frozen=True)
class Run:
    """What the tests made of one mutant."""

    mutant: Mutant
    outcome: str
    """killed, killed (time), alive or equivalent"""
    killer: str = ""
    seconds: float = 0.0


def outcome_of(code: int | None) -> str:
    """Names the exit code of a run of pytest; None is one that passed its time limit."""
    if code is None:
        return "killed (time)"
    return "alive" if code in {0, NOTHING_RAN} else "killed"


class Fork:
    """A child of this process that runs `body` and ends with what it returns, with its output in a file."""

    def __init__(self, body: Callable[[], int], log: Path, limit_s: float) -> None:
        self._deadline = time.monotonic() + limit_s
        self._started = time.monotonic()
        self._log = log
        self._pid = os.fork()
        if self._pid == 0:
            code = BROKEN
            try:
                os.setsid()
                output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(output, 1)
                os.dup2(output, 2)
                code = body()
            finally:
                os._exit(code)

    def result(self) -> tuple[int | None, str, float] | None:
        """Pytest's exit code (None past the limit), the test that failed and the seconds; None while it runs."""
        ended, status = os.waitpid(self._pid, os.WNOHANG)
        if not ended and time.monotonic() < self._deadline:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)  # also what a test has left behind
        if not ended:
            os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status) if ended else None
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", self.output(), re.MULTILINE)
        return code, failed.group(1) if failed else "", round(time.monotonic() - self._started, 1)

    def output(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


def copy_checkout(folder: Path) -> Path:
    """Copies the files that git knows or would take; caches and built things stay behind."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def test_files(copy: Path, area: Area) -> list[str]:
    """The test files of the area, relative to the copy."""
    return sorted(path.relative_to(copy).as_posix() for part in area.tests for path in _tests_below(copy / part))


def _tests_below(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("test_*.py"))


def by_distance(files: Sequence[str], source: Path) -> list[list[str]]:
    """The files in groups: those that mirror the module first, then those of its folder, then the others. Each is one
    run of pytest, which imports all its files before the first test: most mutants die in the first run, of one file."""

    def distance(file: str) -> int:
        path = Path(file)
        if path.name == mirror_of(source.name):
            return 0
        return 1 if source.parent.name in path.parts else 2

    return [list(group) for _, group in groupby(sorted(files, key=distance), distance)]


def run_on_copy(area: Area, mutant: Mutant, limit_s: float) -> Run:
    """Runs the tests on a copy that has the mutant, until the first failure."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = copy_checkout(Path(folder))
        source = copy / mutant.file
        source.write_bytes(mutant.applied(source.read_bytes()))
        code: int | None = 0
        killer, spent = "", 0.0
        groups = by_distance(test_files(copy, area), Path(mutant.file))
        for files in groups[:1] if area.mirrored else groups:
            fork = Fork(partial(run_pytest, copy, files), copy / "mutant.log", limit_s - spent)
            while (result := fork.result()) is None:
                time.sleep(0.02)
            code, killer, seconds = result
            spent += seconds
            if code == BROKEN:
                raise SystemExit(f"pytest did not start:\n{fork.output()[-4000:]}")
            if outcome_of(code) != "alive":
                break
        return Run(mutant, outcome_of(code), killer, round(spent, 1))


def run_pytest(copy: Path, files: Sequence[str], *options: str, plugins: Sequence[object] = ()) -> int:
    """Runs pytest on the copy, in this process; the project's packages are found in the copy first."""
    roots = [str(copy / root) for root in SOURCE_ROOTS]
    sys.path[:0] = roots
    os.environ["PYTHONPATH"] = os.pathsep.join(roots)
    os.environ["PYTHONHASHSEED"] = "0"
    os.chdir(copy)
    origin = importlib.import_module("cotenant").__file__ or ""
    if not Path(origin).is_relative_to(copy):
        raise SystemExit(f"{origin} is not the copy's")
    # One failing example is enough: a smaller one costs seconds, one that is kept goes to the next mutant, and a slow
    # one is no kill.
    settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], database=None, deadline=None)
    settings.load_profile("mutants")
    return int(pytest.main([*OPTIONS, *options, "-m", PLAIN, *files], plugins=list(plugins)))
