"""Counts functions and files that a job passes in the controller, from the observed TrainingJob to the written status.

    python bench/job_way.py [PYTEST ARGUMENT …]

Runs tests of the controller (by default those of the loop, the executor and the lifecycle) with a profiler, and counts
over all of their branches. A stop is a function in another file that receives the record, the observation, the result
or the status. Methods of these values do not count. Not counted are the policies, which a job meets one after the
other, and what follows from the written status: pods, deletions, Events.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

CONTROLLER = Path(__file__).resolve().parents[1] / "operator" / "cotenant" / "controller"
TESTS = ("execution/loop/scheduling_loop", "execution/writes/executor", "lifecycle")
FOLLOWED = {"JobRecord", "Observation", "ReconcileResult", "TrainingJobStatus"}
FROM = {
    ("execution/loop/scheduling_loop.py", "SchedulingLoop._reconcile"),
    ("execution/writes/executor.py", "Executor.apply"),
}
"""The loop hands record and result to a task, in which `apply` goes on."""
AFTERWARDS = {"_delete_pods", "create_pods", "carry_out", "report_quarantine", "resolve_uncertain", "record"}
POLICIES = "lifecycle/policies/"


class Place(NamedTuple):
    """A function of the controller."""

    file: str
    """Below `operator/cotenant/controller`."""
    function: str


class Way:
    """Calls between places at which a followed value was handed on."""

    def __init__(self) -> None:
        self.calls: dict[Place, set[Place]] = defaultdict(set)

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """A profiler, as `sys.setprofile` takes it."""
        if event != "call" or (to := place_of(frame)) is None or frame.f_back is None:
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        handed = (frame.f_locals.get(name) for name in names if name not in {"self", "cls"})
        if any(type(value).__name__ in FOLLOWED for value in handed) and (by := place_of(frame.f_back)) is not None:
            self.calls[by].add(to)

    def stops(self) -> tuple[set[Place], set[str]]:
        """Places that are entered from another file, and all files on the way."""
        seen = {Place(*start) for start in FROM}
        todo, stops = list(seen), set()
        while todo:
            by = todo.pop()
            for to in filter(is_on_the_way, self.calls[by]):
                stops |= {to} if to.file != by.file else set()
                todo += [to] if to not in seen else []
                seen.add(to)
        return stops, {place.file for place in seen}


def place_of(frame: FrameType) -> Place | None:
    file, of = frame.f_code.co_filename, f"{CONTROLLER}/"
    function = frame.f_code.co_qualname.partition(".<locals>")[0]  # what a comprehension calls, its function calls
    return Place(file.removeprefix(of), function) if file.startswith(of) else None


def is_on_the_way(place: Place) -> bool:
    return not place.file.startswith(POLICIES) and place.function.rpartition(".")[2] not in AFTERWARDS


def table(stops: set[Place], files: set[str]) -> Iterator[str]:
    for file in sorted(files):
        yield f"{file:44} {', '.join(sorted(stop.function for stop in stops if stop.file == file)) or 'begins here'}"
    yield f"{len(stops)} stops in {len(files)} files"


def main() -> int:
    way, tests = Way(), CONTROLLER.parents[2] / "tests" / "controller"
    sys.setprofile(way.note)
    ended = pytest.main(["-q", "-m", "not cluster", *(sys.argv[1:] or [str(tests / name) for name in TESTS])])
    sys.setprofile(None)
    print(*table(*way.stops()), sep="\n")
    return int(ended)


if __name__ == "__main__":
    sys.exit(main())
