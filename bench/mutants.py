"""Samples mutants of a package and counts how many of them the plain tests kill.

A mutant is the source with one expression changed: a comparison turned round or moved by one, `+` and `-`, `and` and
`or`, `min` and `max`, `any` and `all` exchanged, a number off by one, a `not` dropped. One that no test notices is a
rule that no test holds. The checkout is never touched. The same seed draws the same mutants of the same source.

A mutant of a function is run by the tests that enter it, in a fork that has everything loaded; another one, of a
constant or a default, is written into a copy of the checkout, where all tests of the area run.

`bench/parts/mutants/equivalent.toml` lists the mutants that cannot be told from the original by any input, each with
the reason. They are drawn like others, are not run, and do not count.

Every mutant of a module, against the test file that mirrors it: `--all --mirrored --file victims.py`.

    python bench/mutants.py [--package core] [--count 60 | --all] [--seed 1 …] [--jobs 1] [--file PART …]
                            [--mirrored] [--tests PATH …] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import random
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path

from bench.parts.mutants.loaded import run_loaded
from bench.parts.mutants.sites import Mutant, mutants_of
from bench.parts.mutants.trials import ROOT, Area, Run, mirror_of, run_on_copy

EQUIVALENT = Path(__file__).parent / "parts" / "mutants" / "equivalent.toml"
PRELOADED = ("numpy", "yaml", "pydantic", "aiohttp", "prometheus_client", "looptime")
"""Imported once, before the forks; nothing of the project is, as each copy has its own."""
LIMIT_S = 900.0
"""The time limit of one mutant that is run on a copy."""


AREAS = {
    "core": Area("operator/cotenant/core", ("tests/core", "tests/simulator")),
    "api": Area("operator/cotenant/api", ("tests/api",)),
    "contract": Area(
        "operator/cotenant/contract",
        (
            "tests/contract/decoding",
            "tests/contract/test_contract.py",
            "tests/contract/test_progress.py",
            "tests/contract/test_termination.py",
        ),
    ),
    **{
        name: Area(f"operator/cotenant/controller/{name}", ("tests/controller",))
        for name in ("lifecycle", "cluster", "execution", "informers", "reports", "manifests", "client", "leader")
    },
}


def equivalents() -> dict[tuple[str, str, str], str]:
    """(file, line, mutated line) -> why no input tells them apart."""
    if not EQUIVALENT.exists():
        return {}
    entries = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    return {(entry["file"], entry["line"], entry["mutated"]): entry["reason"] for entry in entries}


def sources(area: Area, parts: Sequence[str]) -> list[str]:
    """The files of the area whose path has one of the parts; all without parts."""
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / area.source).rglob("*.py"))
    return [file for file in files if not parts or any(part in file for part in parts)]


def mirrors(area: Area, files: Sequence[str]) -> tuple[str, ...]:
    """The test files of the area that have the name of one of the modules."""
    names = set(map(mirror_of, files))
    below = chain.from_iterable((ROOT / folder).rglob("test_*.py") for folder in area.tests)
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in below if path.name in names))


def sample(files: Sequence[str], count: int | None, seed: int) -> list[Mutant]:
    """`count` different mutants of the files, or all where there are fewer, in the order of the source."""
    found = [mutant for file in files for mutant in mutants_of(file, (ROOT / file).read_bytes())]
    if count is None:
        return sorted(found, key=order)
    chosen = random.Random(seed).sample(found, min(count, len(found)))
    return sorted(chosen, key=order)


def order(mutant: Mutant) -> tuple[str, int, str]:
    """The order of the source."""
    return mutant.file, mutant.start, mutant.becomes


def run_all(area: Area, drawn: list[Mutant], jobs: int) -> list[Run]:
    """Runs each mutant that is not listed as equivalent, and prints what becomes of it."""
    known = equivalents()
    for module in PRELOADED:
        importlib.import_module(module)
    counted = [mutant for mutant in drawn if mutant.key not in known]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as loading:
        runs, rest = loading.submit(run_loaded, area, counted, jobs, report).result()
    for mutant in rest:
        runs.append(run_on_copy(area, mutant, LIMIT_S))
        report(runs[-1])
    return [*runs, *(Run(mutant, "equivalent") for mutant in drawn if mutant.key in known)]


def report(run: Run) -> None:
    place = f"{run.mutant.file.removeprefix('operator/cotenant/')}:{run.mutant.line_number}"
    print(f"{run.outcome:13} {run.seconds:5.1f} s  {place:45} {run.mutant.was} -> {run.mutant.becomes}", flush=True)
    if run.outcome == "alive":
        print(f"              - {run.mutant.line}\n              + {run.mutant.mutated}", flush=True)


def summary(runs: Sequence[Run]) -> str:
    counted = [run for run in runs if run.outcome != "equivalent"]
    killed = [run for run in counted if run.outcome != "alive"]
    share = 100 * len(killed) / len(counted) if counted else 100.0
    return f"{len(killed)} of {len(counted)} killed, {share:.1f} %; {len(runs) - len(counted)} equivalent"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", choices=sorted(AREAS), default="core")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--all", action="store_true", help="every mutant instead of a sample")
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--file", nargs="+", default=[], help="only files whose path has one of these parts")
    parser.add_argument("--mirrored", action="store_true", help="only the tests that mirror these files")
    parser.add_argument("--tests", nargs="+", default=[], help="only these tests: what others kill counts as alive")
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args()
    area = AREAS[given.package]
    files = sources(area, given.file)
    drawn = {seed: sample(files, None if given.all else given.count, seed) for seed in given.seed}
    every = sorted(set(chain(*drawn.values())), key=order)
    narrowed = (*(mirrors(area, [mutant.file for mutant in every]) if given.mirrored else ()), *given.tests)
    area = replace(area, tests=narrowed or area.tests, mirrored=given.mirrored and not given.tests)
    runs = {run.mutant: run for run in run_all(area, every, given.jobs)}
    for seed, mutants in drawn.items():
        print(f"{given.package}, seed {seed}: {summary([runs[mutant] for mutant in mutants])}")
    print(f"{given.package}, together: {summary(list(runs.values()))}")
    if given.json:
        rows = [{**asdict(run), "line_number": run.mutant.line_number} for run in runs.values()]
        given.json.write_text(json.dumps({"package": given.package, "seeds": given.seed, "runs": rows}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
