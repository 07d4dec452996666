"""Rate of the core's decisions, without an API server: the scenarios of published schedulers, on clusters as large.

    python bench/throughput.py [--seed 1] [--only NAME …] [--scale 1.0] [--json FILE]

Prints one row per scenario with the goal beside it, and writes JSON. A scenario times `schedule` alone, or
`ClusterState.snapshot` plus `schedule` where the row says "cycle". The core is one thread without I/O, so "measured"
uses CPU seconds, which other work on the machine does not distort; wall-clock stands beside it. The garbage collector
runs as rarely as in the operator.
Nothing here is a test: machines differ.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench.parts.throughput import cycles, single_decisions
from bench.parts.throughput.rows import Row
from cotenant.cli.operator import collect_garbage_rarely

SCENARIOS: dict[str, Callable[[random.Random, float], Row]] = {
    "jobs": single_decisions.one_gpu_jobs,
    "gangs": single_decisions.gangs_of_four,
    "large": single_decisions.large_gangs,
    "reclaim": single_decisions.reclaim,
    "reclaims": single_decisions.reclaim_one_by_one,
    "impossible": single_decisions.impossible,
    "cycle": cycles.running_cluster,
    "absurd": cycles.absurd_gangs,
    "used": cycles.used_nodes,
    "used-few": cycles.used_nodes_few,
    "used-shapes": cycles.used_nodes_shapes,
    "steady": cycles.steady_state,
    "steady-overdue": cycles.steady_overdue,
    "unchanged": cycles.unchanged,
    "unchanged-overdue": cycles.unchanged_overdue,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--scale", type=float, default=1.0, help="size of cluster and load; goals hold for 1.0")
    parser.add_argument("--json", type=Path, default=Path("bench/results/throughput.json"))
    args = parser.parse_args()
    collect_garbage_rarely()
    rows = []
    print(
        f"{'scenario':42} {'measured':>12} {'unit':12} {'goal':>8}  {'':4}"
        f" {'cpu s':>8} {'wall s':>8} {'peak MiB':>8}  note"
    )
    for name in args.only:
        result = SCENARIOS[name](random.Random(args.seed), args.scale)
        rows.append(result)
        word = "met" if result.met else "MISS"
        print(
            f"{result.scenario:42} {result.measured:>12,.3f} {result.unit:12} {result.goal:>8}  {word:4}"
            f" {result.cpu_s:>8.2f} {result.wall_s:>8.2f} {result.peak_mib:>8}  {result.note}",
            flush=True,
        )
    args.json.parent.mkdir(parents=True, exist_ok=True)
    document = {"seed": args.seed, "scale": args.scale, "rows": [asdict(result) for result in rows]}
    args.json.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
