"""Feeds hostile inputs to every decoder of what tenants say, and prints how many, how fast, and what broke.

Seed and number identify an input: they draw the same one again. `--first` and `--inputs` choose a range of numbers, so
a million inputs can be spread over machines or runs. The exit status is 1 if a decoder broke.

    python -m bench.fuzz [--inputs 1000000] [--first 0] [--seed 1] [--jobs 2] [--door progress ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from tests.support.hostile.doors import DOORS, Door
from tests.support.hostile.mutations import Mutator

FAILURES_KEPT = 5
INPUT_CHARS_MAX = 2000
CHUNK = 2000


@dataclass
class Slice:
    """Result of a range of inputs for one decoder."""

    door: str
    inputs: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    failures: dict[str, str] = field(default_factory=dict)
    """Place in the code → the first input that made it fail."""

    def add(self, other: Slice) -> None:
        self.inputs += other.inputs
        self.seconds += other.seconds
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.failures = {**other.failures, **self.failures}


def run_slice(name: str, seed: int, numbers: range) -> Slice:
    door = next(one for one in DOORS if one.name == name)
    found = Slice(name)
    for number in numbers:
        started = time.perf_counter()
        _try_one(door, seed, number, found)
        took = time.perf_counter() - started
        found.inputs += 1
        found.seconds += took
        found.slowest_s = max(found.slowest_s, took)
    return found


def _try_one(door: Door, seed: int, number: int, found: Slice) -> None:
    drawn: object = None
    try:
        drawn = door.make(Mutator(Random(f"{seed} {door.name} {number}")))
        door.check(drawn)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
        if len(found.failures) < FAILURES_KEPT:
            found.failures.setdefault(where, f"seed {seed}, number {number}: {ascii(drawn)[:INPUT_CHARS_MAX]}")


def chunks(first: int, inputs: int) -> list[range]:
    return [range(at, min(at + CHUNK, first + inputs)) for at in range(first, first + inputs, CHUNK)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of all doors together")
    parser.add_argument("--first", type=int, default=0, help="number of the first input of each door")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--door", action="append", choices=[door.name for door in DOORS])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    names = args.door or [door.name for door in DOORS]
    totals = {name: Slice(name) for name in names}
    with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("fork")) as pool:
        each = args.inputs // len(names)
        slices = [pool.submit(run_slice, name, args.seed, part) for part in chunks(args.first, each) for name in names]
        for done in slices:
            found = done.result()
            totals[found.door].add(found)
    report(list(totals.values()))
    if args.json:
        args.json.write_text(json.dumps([asdict(one) for one in totals.values()], indent=2))
    return 1 if any(one.failures for one in totals.values()) else 0


def report(totals: list[Slice]) -> None:
    print(f"{'door':<12} {'inputs':>9} {'µs each':>8} {'slowest ms':>10}  broke")
    for one in totals:
        each = one.seconds / max(1, one.inputs) * 1e6
        print(f"{one.door:<12} {one.inputs:>9} {each:>8.0f} {one.slowest_s * 1e3:>10.1f}  {len(one.failures)}")
        for where, drawn in one.failures.items():
            print(f"    {where}: {drawn}")
    print(f"{sum(one.inputs for one in totals)} inputs, {sum(len(one.failures) for one in totals)} places broke")


if __name__ == "__main__":
    sys.exit(main())
