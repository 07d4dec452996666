"""Allocation that each placement policy reaches on a cluster: the published protocol on the openb lists.

    python bench/packing.py                                     # all lists, seeds 42..51, random, best fit, FGD, ours
    python bench/packing.py --lists default,cpu250 --seeds 42-44 --policies fgd,ours,ours-random
    python bench/packing.py --shift mixed --seeds 100-104       # other clusters and mixes: see parts/packing/shifts.py

Allocation is the GPU handed out as percent of the cluster's, when the pods that have arrived ask for 100 % and for
130 % of it (docs/design/0002-packing.md). Differences are paired: same list, same seed, same order. `-random` breaks
ties at random; s/run is CPU time. Lists are never committed: point --traces at a copy of openb_*.csv[.gz].
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.parts.packing.baselines import BaselineLedger, BestFit, CachedScores, Fgd, RandomFit
from bench.parts.packing.cotenant_policy import CotenantPolicy
from bench.parts.packing.openb import LISTS, Machines, PodShape, arrivals, read_machines, read_pods
from bench.parts.packing.shifts import SHIFTS

HERE = Path(__file__).resolve().parent
POLICIES = ("random", "bestfit", "bestfit-random", "fgd", "fgd-random", "ours", "ours-random")
REFERENCE = "fgd"


class Run(Protocol):
    def place(self, pod: PodShape) -> bool: ...


@dataclass(frozen=True, slots=True)
class Result:
    list: str
    policy: str
    seed: int
    at_100: float
    at_130: float
    placed: int
    failed: int
    seconds: float


def start(policy: str, machines: Machines, pods: list[PodShape], rng: np.random.Generator) -> Run:
    """The nodes come in the random order that the artifact's name prefixes give them."""
    name, _, variant = policy.partition("-")
    ties = rng if variant == "random" else None
    if name == "ours":
        return CotenantPolicy(machines, ties)
    ledger = BaselineLedger(machines)
    if name == "random":
        return RandomFit(ledger, rng)
    return CachedScores(BestFit() if name == "bestfit" else Fgd(ledger, pods), ledger, ties)


def one_run(traces: Path, shift: str | None, task: tuple[str, str, int]) -> Result:
    name, policy, seed = task
    machines, pods = read_machines(traces), read_pods(traces, name)
    rng = np.random.default_rng(seed)
    if shift:
        machines, pods = SHIFTS[shift](machines, pods, rng)
    order = arrivals(pods, machines.milli, rng)
    machines = machines.take(rng.permutation(len(machines.cpu)))
    began = time.process_time()
    run = start(policy, machines, pods, rng)
    placed = [run.place(pod) for pod in order]
    seconds = time.process_time() - began
    milli = np.array([pod.total for pod in order])
    arrived = np.rint(100 * np.cumsum(milli) / machines.milli)
    used = 100 * np.cumsum(np.where(placed, milli, 0)) / machines.milli
    return Result(
        list=name,
        policy=policy,
        seed=seed,
        at_100=allocation(used, arrived, 100),
        at_130=allocation(used, arrived, 130),
        placed=sum(placed),
        failed=len(placed) - sum(placed),
        seconds=seconds,
    )


def allocation(used: NDArray[np.float64], arrived: NDArray[np.float64], percent: int) -> float:
    """Mean over the arrivals that round to this percent; on clusters so small that none does, the last before it."""
    there = arrived == percent
    return float(used[there].mean()) if there.any() else float(used[arrived <= percent][-1])


def results(tasks: list[tuple[str, str, int]], traces: Path, shift: str | None, processes: int) -> Iterator[Result]:
    work = partial(one_run, traces, shift)
    if processes == 1:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(work, tasks)


def spread(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def table(done: list[Result]) -> list[str]:
    """Mean ± σ over seeds at 100 % and 130 %, and the mean paired difference to FGD where it ran."""
    lines = [
        f"{'list':13}{'policy':15}{'at 100 %':>15}{'at 130 %':>15}{'− FGD @100':>15}{'− FGD @130':>15}{'s/run':>7}"
    ]
    reference = {(r.list, r.seed): r for r in done if r.policy == REFERENCE}
    lists = list(dict.fromkeys(r.list for r in done))
    for policy in dict.fromkeys(r.policy for r in done):
        means: list[tuple[float, float]] = []
        for name in lists:
            runs = [r for r in done if (r.list, r.policy) == (name, policy)]
            cells = []
            for at in ("at_100", "at_130"):
                values = [getattr(r, at) for r in runs]
                cells.append(f"{statistics.mean(values):9.2f} ±{spread(values):4.2f}")
            for at in ("at_100", "at_130"):
                pairs = [(getattr(r, at), reference.get((name, r.seed))) for r in runs]
                gaps = [value - getattr(other, at) for value, other in pairs if other is not None]
                cells.append(f"{statistics.mean(gaps):+9.2f} ±{spread(gaps):4.2f}" if gaps else "")
            seconds = statistics.mean(r.seconds for r in runs)
            lines.append(f"{name:13}{policy:15}" + "".join(f"{cell:>15}" for cell in cells) + f"{seconds:7.1f}")
            means.append((statistics.mean(r.at_100 for r in runs), statistics.mean(r.at_130 for r in runs)))
        first, last = (statistics.mean(column) for column in zip(*means, strict=True))
        lines.append(f"{'MEAN':13}{policy:15}{first:9.2f}{'':6}{last:9.2f}")
    return lines


def seeds_of(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=HERE.parent.parent / "shared/traces/openb")
    parser.add_argument("--lists", default=",".join(LISTS), help="names as in openb_pod_list_NAME.csv")
    parser.add_argument("--policies", default="random,bestfit,fgd,ours", help=f"of {', '.join(POLICIES)}")
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("42-51"), help="A or A-B")
    parser.add_argument("--seed", type=int, help="just this one")
    parser.add_argument("--shift", choices=SHIFTS, help="bend cluster and list, differently for each seed")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "packing.json")
    options = parser.parse_args()
    if unknown := set(options.policies.split(",")) - set(POLICIES):
        parser.error(f"no such policy: {', '.join(sorted(unknown))}; known: {', '.join(POLICIES)}")
    return options


def main() -> None:
    options = arguments()
    seeds = options.seeds if options.seed is None else [options.seed]
    tasks = [
        (name, policy, seed)
        for name in options.lists.split(",")
        for policy in options.policies.split(",")
        for seed in seeds
    ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done: list[Result] = []
    for result in results(tasks, options.traces, options.shift, options.processes):
        done.append(result)  # kept after every run: all of them take hours
        options.out.write_text(json.dumps([asdict(each) for each in done], indent=1) + "\n")
        print(f"\r{len(done)} of {len(tasks)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print("\n".join(table(done)))
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
