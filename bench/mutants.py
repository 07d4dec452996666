"""Samples mutants of a package and counts how many of them the plain tests kill.

A mutant is the source with one expression changed: a comparison turned round or moved by one, `+` and `-`, `and` and
`or`, `min` and `max`, `any` and `all` exchanged, a number off by one, a `not` dropped. One that no test notices is a
rule that no test holds. The checkout is never touched: each mutant is written into a copy in a temporary folder.
The same seed draws the same mutants of the same source.

`mutants.toml` lists the mutants that cannot be told from the original by any input, each with the reason. They are
drawn like others, are not run, and do not count.

    python bench/mutants.py [--package core] [--count 60] [--seed 1] [--jobs 1] [--file PART] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from bench.parts.mutant_sites import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENT = Path(__file__).with_suffix(".toml")
PLAIN = "not cluster and not sandbox and not ray and not frameworks and not containers and not gpu"
SOURCE_ROOTS = ("operator", "worker", "local", ".")
PRELOADED = ("pytest", "hypothesis", "numpy", "yaml", "pydantic", "aiohttp", "prometheus_client", "looptime")
"""Imported once, before the forks: more than half of the time of a run of few tests."""
BROKEN = 99
"""The exit code of a fork that did not come as far as pytest. Pytest's own: 1 to 4, whatever a mutant breaks."""
NOTHING_RAN = 5
"""Pytest's exit code where no test of its files is a plain one."""
LEAST_LIMIT_S = 20.0
"""The shortest time limit of one mutant; else four times what all tests of the area take without a mutant."""


@dataclass(frozen=True)
class Area:
    """A package and the test folders that are run for it."""

    source: str
    tests: tuple[str, ...]


AREAS = {
    "core": Area("operator/cotenant/core", ("tests/core", "tests/simulator")),
    "api": Area("operator/cotenant/api", ("tests/api",)),
    "decoding": Area(
        "operator/cotenant/decoding",
        ("tests/decoding", "tests/contract/test_progress.py", "tests/contract/test_termination.py"),
    ),
    "contract": Area(
        "operator/cotenant/contract",
        ("tests/contract/test_contract.py", "tests/contract/test_progress.py", "tests/contract/test_termination.py"),
    ),
    **{
        name: Area(f"operator/cotenant/controller/{name}", ("tests/controller",))
        for name in ("lifecycle", "cluster", "execution", "informers", "reports", "manifests", "client", "leader")
    },
}


@dataclass(frozen=True)
class Run:
    """What the tests made of one mutant: `killed`, `killed (time)`, `alive` or `equivalent`."""

    mutant: Mutant
    outcome: str
    killer: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Trial:
    """One run of the tests of an area on a copy of the checkout, with a mutant in it or without one."""

    copy: Path
    area: Area
    mutant: Mutant | None
    limit_s: float


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


def test_files(copy: Path, area: Area, mutant: Mutant | None) -> list[list[str]]:
    """The test files of the area in the order in which they run: those first that mirror the mutated module, then
    those of its folder, then the others. Each list is one run of pytest, which imports all its files before the first
    test: most mutants die in the first run, of one file."""
    files = sorted(
        path.relative_to(copy).as_posix() for part in area.tests for path in (copy / part).rglob("test_*.py")
    )
    if mutant is None:
        return [files]
    source = Path(mutant.file)

    def distance(file: str) -> int:
        path = Path(file)
        if path.stem == f"test_{source.stem}":
            return 0
        return 1 if source.parent.name in path.parts else 2

    return [list(group) for _, group in groupby(sorted(files, key=distance), distance)]


def run_tests(trial: Trial) -> tuple[str, str, float]:
    """Runs the tests until the first failure: the outcome, the test that failed, the seconds."""
    if trial.mutant is not None:
        source = trial.copy / trial.mutant.file
        original = source.read_bytes()
        _write(source, trial.mutant.applied(original))
    log = trial.copy / "mutant.log"
    started = time.monotonic()
    code: int | None = 0
    try:
        for files in test_files(trial.copy, trial.area, trial.mutant):
            code = _in_fork(trial, files, log, started + trial.limit_s)
            if code == NOTHING_RAN:
                code = 0
            if code != 0:
                break
    finally:
        if trial.mutant is not None:
            _write(source, original)
    seconds = time.monotonic() - started
    if code is None:
        return "killed (time)", "", seconds
    if code == BROKEN or (code not in (0, 1, 2) and trial.mutant is None):
        raise SystemExit(f"pytest ended with {code}:\n{log.read_text()[-4000:]}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", log.read_text(), re.MULTILINE)
    return "killed" if code else "alive", failed.group(1) if failed else "", seconds


def _write(source: Path, content: bytes) -> None:
    """Writes a module and drops its bytecode: two mutants of one second and one size have the same stamp."""
    for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"):
        compiled.unlink()
    source.write_bytes(content)


def _in_fork(trial: Trial, files: list[str], log: Path, deadline: float) -> int | None:
    """Pytest's exit code, None past the deadline. The fork has the heavy imports and nothing of the project."""
    child = os.fork()
    if child == 0:
        os.setsid()
        code = BROKEN
        try:
            code = _pytest(trial.copy, files, log)
        finally:
            os._exit(code)
    try:
        while time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        return None
    finally:
        _end_group(child)


def _end_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass  # it has ended, and left nothing behind


def _pytest(copy: Path, files: list[str], log: Path) -> int:
    """Runs pytest on the copy, in this process; the project's packages are found in the copy first."""
    import pytest

    roots = [str(copy / root) for root in SOURCE_ROOTS]
    sys.path[:0] = roots
    os.environ["PYTHONPATH"] = os.pathsep.join(roots)
    os.environ["PYTHONHASHSEED"] = "0"
    os.chdir(copy)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    origin = importlib.import_module("cotenant").__file__ or ""
    if not Path(origin).is_relative_to(copy):
        raise SystemExit(f"{origin} is not the copy's")
    _without_shrinking()
    options = ["-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-W", "ignore"]
    return int(pytest.main([*options, "-m", PLAIN, *files]))


def _without_shrinking() -> None:
    """One failing example is enough; a smaller one costs seconds, and one that is kept would go to the next mutant."""
    from hypothesis import Phase, settings

    settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], database=None)
    settings.load_profile("mutants")


def equivalents() -> dict[tuple[str, str, str], str]:
    """(file, line, mutated line) -> why no input tells them apart."""
    if not EQUIVALENT.exists():
        return {}
    entries = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    return {(entry["file"], entry["line"], entry["mutated"]): entry["reason"] for entry in entries}


def sample(area: Area, count: int, seed: int, part: str) -> list[Mutant]:
    """`count` different mutants of the area, or all where there are fewer, in the order of the source."""
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / area.source).rglob("*.py"))
    found = [mutant for file in files if part in file for mutant in mutants_of(file, (ROOT / file).read_bytes())]
    chosen = random.Random(seed).sample(found, min(count, len(found)))
    return sorted(chosen, key=lambda mutant: (mutant.file, mutant.start, mutant.becomes))


_copy: Path | None = None


def _own_copy(folder: str) -> Path:
    """The copy of this worker process, made on first use."""
    global _copy  # noqa: PLW0603 - one copy per worker process of the pool
    if _copy is None:
        _copy = copy_checkout(Path(tempfile.mkdtemp(dir=folder)))
    return _copy


def _one(area: Area, mutant: Mutant, limit_s: float, folder: str) -> Run:
    outcome, killer, seconds = run_tests(Trial(_own_copy(folder), area, mutant, limit_s))
    return Run(mutant, outcome, killer, round(seconds, 1))


def run_all(area: Area, drawn: list[Mutant], jobs: int) -> Iterator[Run]:
    """Runs each mutant that is not listed as equivalent, and first the tests without one: they have to pass."""
    known = equivalents()
    for module in PRELOADED:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        outcome, failed, seconds = run_tests(Trial(_own_copy(folder), area, None, 900.0))
        if outcome != "alive":
            raise SystemExit(f"without a mutant: {outcome} {failed}")
        print(f"without a mutant all tests pass in {seconds:.1f} s")
        limit_s = max(LEAST_LIMIT_S, 4 * seconds)
        with ProcessPoolExecutor(
            jobs, mp_context=multiprocessing.get_context("fork"), initializer=_forget_copy
        ) as pool:
            running = [
                None if mutant.key in known else pool.submit(_one, area, mutant, limit_s, folder) for mutant in drawn
            ]
            for mutant, result in zip(drawn, running, strict=True):
                yield Run(mutant, "equivalent") if result is None else result.result()


def _forget_copy() -> None:
    """Keeps a forked worker off the copy that its parent, or another worker, uses."""
    global _copy  # noqa: PLW0603 - see _own_copy
    _copy = None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", choices=sorted(AREAS), default="core")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--file", default="", help="only files whose path has this part")
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args()
    drawn = sample(AREAS[given.package], given.count, given.seed, given.file)
    runs = []
    for run in run_all(AREAS[given.package], drawn, given.jobs):
        runs.append(run)
        place = f"{run.mutant.file.removeprefix('operator/cotenant/')}:{run.mutant.line_number}"
        print(f"{run.outcome:13} {run.seconds:5.1f} s  {place:45} {run.mutant.was} -> {run.mutant.becomes}", flush=True)
        if run.outcome == "alive":
            print(f"              - {run.mutant.line}\n              + {run.mutant.mutated}", flush=True)
    counted = [run for run in runs if run.outcome != "equivalent"]
    killed = [run for run in counted if run.outcome != "alive"]
    share = 100 * len(killed) / len(counted) if counted else 100.0
    print(f"{given.package}, seed {given.seed}: {len(killed)} of {len(counted)} killed, {share:.1f} %", end="")
    print(f"; {len(runs) - len(counted)} equivalent")
    if given.json:
        rows = [{**asdict(run), "line_number": run.mutant.line_number} for run in runs]
        given.json.write_text(json.dumps({"package": given.package, "seed": given.seed, "runs": rows}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
