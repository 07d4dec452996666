"""Runs mutants of functions in forks of one process that has loaded the project and collected its tests.

Most of the time of a run of few tests is their import. Here they are imported once; a fork gives the mutated functions
their new code and runs the tests that enter one of them, the quick ones first. Which tests these are is seen in a first
run of all tests without a mutant. What a test module computes when it is imported has the original code: a mutant that
only this could kill counts as alive.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest

from bench.parts.mutants.codes import caches_below, functions_below, functions_of, mutated_codes
from bench.parts.mutants.sites import Mutant
from bench.parts.mutants.trials import Area, Fork, Run, copy_checkout, mirror_of, outcome_of, run_pytest, test_files

Place = tuple[str, int, str]
"""A function: its file, its first line and its qualified name."""
Report = Callable[[Run], None]

LEAST_LIMIT_S = 20.0
"""The shortest time limit of one mutant; else four times what its tests take without a mutant."""


class LoadedTests:
    """A pytest plugin that runs mutants instead of the tests that were collected. After it, `runs` has the results and
    `rest` the mutants that no loaded function has."""

    def __init__(self, copy: Path, area: Area, mutants: Sequence[Mutant], jobs: int, report: Report) -> None:
        self.runs: list[Run] = []
        self.rest: list[Mutant] = []
        self._copy = copy
        self._source = str(copy / area.source)
        self._mirrored = area.mirrored
        self._mutants = mutants
        self._jobs = jobs
        self._report = report
        self._running: dict[Fork, Mutant] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        reached, seconds = self._first_run(session)
        alive = functions_below(self._source)
        print(f"without a mutant {len(reached)} tests pass in {sum(seconds.values()):.1f} s", flush=True)
        for number, mutant in enumerate(self._mutants):
            pairs = mutated_codes(self._copy / mutant.file, mutant)
            functions = functions_of(pairs, alive) if pairs else []
            if not functions:
                self.rest.append(mutant)
                continue
            innermost = _place(pairs[-1][0])
            items = [
                item
                for item in session.items
                if innermost in reached[item.nodeid]
                and (not self._mirrored or item.path.name == mirror_of(mutant.file))
            ]
            items.sort(key=lambda item: seconds[item.nodeid])
            limit_s = max(LEAST_LIMIT_S, 4 * sum(seconds[item.nodeid] for item in items))
            while len(self._running) >= self._jobs:
                self._gather()
            body = partial(_run_mutated, session, items, functions)
            self._running[Fork(body, self._copy / f"mutant-{number}.log", limit_s)] = mutant
        while self._running:
            self._gather()
        return True

    def _gather(self) -> None:
        """Takes what has ended, or waits a little."""
        for fork, mutant in list(self._running.items()):
            if (result := fork.result()) is not None:
                code, killer, seconds = result
                del self._running[fork]
                self.runs.append(Run(mutant, outcome_of(code), killer, seconds))
                self._report(self.runs[-1])
                return
        time.sleep(0.02)

    def _first_run(self, session: pytest.Session) -> tuple[dict[str, set[Place]], dict[str, float]]:
        """What each test enters, and its seconds, of a run of all of them in a fork."""
        seen = self._copy / "reached.json"
        fork = Fork(lambda: _watched_run(session, self._source, seen), self._copy / "first.log", 1800.0)
        while (result := fork.result()) is None:
            time.sleep(0.1)
        if result[0] != 0:
            raise SystemExit(f"without a mutant: {result[0]} {result[1]}\n{fork.output()[-4000:]}")
        entries = json.loads(seen.read_text())
        return (
            {test: {(file, line, name) for file, line, name in places} for test, (_, places) in entries.items()},
            {test: spent for test, (spent, _) in entries.items()},
        )


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_firstlineno, code.co_qualname


def _run_mutated(
    session: pytest.Session, items: Sequence[pytest.Item], functions: Sequence[tuple[FunctionType, CodeType]]
) -> int:
    for function, code in functions:
        function.__code__ = code
    return next((1 for item in _each_run(session, items) if session.testsfailed), 0)


def _each_run(session: pytest.Session, items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Runs the tests until one fails, and hands out each after its run."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            print(f"FAILED {item.nodeid}", flush=True)
        yield item
        if session.testsfailed:
            return


class _Watch:
    """Notes which functions are entered. By identity: the hash of a code is that of all that it holds."""

    def __init__(self) -> None:
        self.entered: dict[int, CodeType] = {}

    def __call__(self, frame: FrameType, _event: str, _argument: object) -> None:
        self.entered[id(frame.f_code)] = frame.f_code

    def taken(self, below: str) -> list[Place]:
        """The functions of a folder that were entered since the last call."""
        entered, self.entered = self.entered, {}
        return [_place(code) for code in entered.values() if code.co_filename.startswith(below)]


def _watched_run(session: pytest.Session, below: str, seen: Path) -> int:
    watch = _Watch()
    entries = {}
    threading.settrace(watch)
    sys.settrace(watch)
    started = time.monotonic()
    caches = caches_below(below)
    for item in _each_run(session, session.items):
        entries[item.nodeid] = time.monotonic() - started, watch.taken(below)
        for cache in caches:  # else the first of several tests enters what all of them need
            cache.cache_clear()
        started = time.monotonic()
    sys.settrace(None)
    seen.write_text(json.dumps(entries))
    return 1 if session.testsfailed else 0


def run_loaded(area: Area, mutants: Sequence[Mutant], jobs: int, report: Report) -> tuple[list[Run], list[Mutant]]:
    """Runs those of the mutants that are inside functions; the results, and the mutants that are left."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, contextlib.chdir(Path.cwd()):
        copy = copy_checkout(Path(folder))
        tests = LoadedTests(copy, area, mutants, jobs, report)
        code = run_pytest(copy, test_files(copy, area), "-s", plugins=[tests])
        if len(tests.runs) + len(tests.rest) != len(mutants):
            raise SystemExit(f"the tests were not loaded: pytest ended with {code}")
        return tests.runs, tests.rest
