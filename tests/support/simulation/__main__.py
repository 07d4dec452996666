"""Plays many seeds, with progress; a seed that violates an invariant is shrunk and tells its story.

python -m tests.support.simulation [--seeds 10000] [--first 0] [--jobs 2] [--keep-going]
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.support.simulation.scenario import draw
from tests.support.simulation.shrinking import shrink
from tests.support.simulation.world import World

CHUNK = 10


def play(seeds: range) -> dict[int, str]:
    """Seed → violation, of those that have one."""
    found = {seed: World(draw(seed, sweeps_and_sessions=True)).run().violation for seed in seeds}
    return {seed: violation for seed, violation in found.items() if violation}


def story_of(seed: int) -> str:
    """How the smallest scenario that is found goes wrong, in at most some thirty lines."""
    smallest = shrink(draw(seed, sweeps_and_sessions=True), lambda scenario: World(scenario).run().violation)
    return World(smallest).run().report()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    args = parser.parse_args()
    last, started, done, violations = args.first + args.seeds, time.monotonic(), 0, 0
    chunks = [range(at, min(at + CHUNK, last)) for at in range(args.first, last, CHUNK)]
    with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("fork")) as pool:
        for chunk, found in zip(chunks, pool.map(play, chunks), strict=True):
            done += len(chunk)
            for seed, violation in found.items():
                violations += 1
                print(f"\nseed {seed}: {violation}\n{story_of(seed)}\n", flush=True)
            if done % 100 == 0 or done == args.seeds:
                rate = done / (time.monotonic() - started)
                print(f"{done} of {args.seeds} seeds, {violations} violations, {rate:.1f} seeds/s", flush=True)
            if violations and not args.keep_going:
                pool.shutdown(cancel_futures=True)
                return 1
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
