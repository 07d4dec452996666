"""Weeks that look like Philly (Jeon et al., ATC 2019) and Helios (Hu et al., SC 2021), drawn from declared parameters.

Each size of a job has its share of all jobs and a log-normal run time. A run is cut at three days, because a longer one
would still run at the end of the week. `PHILLY` has the sizes and run times of 82,247 jobs of that log. `HELIOS` is
a guess at the other one, with more and shorter jobs of many GPUs: without the cut, a job has 3.7 GPUs and runs for
1.8 h on average, the median for 3.4 min. Arrivals are spread evenly, without days and nights.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cotenant.simulator.scenario import Arrival, Scenario
from tests.support.clusters import make_job, make_node, make_queue

HOURS: Final = 168.0
_LONGEST_S: Final = 3 * 86_400.0
_QUEUES: Final = {"red": 0.4, "blue": 0.3, "green": 0.2, "grey": 0.1}
"""Queue → its part of the jobs, and of the GPUs as its guarantee."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Run times of one size of jobs."""

    part: float
    """Of all jobs."""
    median_s: float
    spread: float
    """Standard deviation of the logarithm."""


PHILLY: Final = {
    1: Runs(0.932, 1_116.0, 2.0),
    2: Runs(0.022, 600.0, 2.8),
    4: Runs(0.023, 17_400.0, 1.75),
    8: Runs(0.020, 23_700.0, 1.85),
    16: Runs(0.0025, 52_500.0, 1.3),
    32: Runs(0.0008, 14_300.0, 1.2),
}
HELIOS: Final = {
    size: Runs(part, 206.0, 2.6)
    for size, part in {1: 0.6, 2: 0.12, 4: 0.1, 8: 0.13, 16: 0.03, 32: 0.015, 64: 0.005}.items()
}
WEEKS: Final[Mapping[str, Mapping[int, Runs]]] = {"philly": PHILLY, "helios": HELIOS}


def week(name: str, *, load: float, nodes: int, seed: int, declares: str = "nothing") -> Scenario:
    """Jobs of a week, of all sizes of `WEEKS[name]` up to a quarter of the GPUs, on nodes of 8 GPUs.

    A job of more than 8 GPUs has workers of 8. `load`: GPU time of all jobs, of what the cluster has in the week.
    `declares`: "maxRuntime" for 1.2 times the run time.
    """
    dice = random.Random(seed)
    sizes = {size: runs for size, runs in WEEKS[name].items() if size <= nodes * 2}
    left, drawn = load * nodes * 8 * HOURS * 3_600, []
    while left > 0:
        size = dice.choices(list(sizes), [runs.part for runs in sizes.values()])[0]
        seconds = min(_LONGEST_S, max(10.0, sizes[size].median_s * dice.lognormvariate(0.0, sizes[size].spread)))
        drawn.append((size, seconds))
        left -= size * seconds
    arrivals = []
    for number, (size, seconds) in enumerate(drawn):
        at = dice.uniform(0.0, HOURS * 3_600)
        queue = dice.choices(list(_QUEUES), list(_QUEUES.values()))[0]
        job = make_job(
            f"j{number}",
            queue=queue,
            gpus=min(8, size),
            workers=max(1, size // 8),
            at=at,
            max_runtime_s=round(1.2 * seconds) if declares == "maxRuntime" else None,
        )
        arrivals.append(Arrival(at, job, seconds))
    queues = tuple(make_queue(queue, guaranteed=int(part * nodes * 8)) for queue, part in _QUEUES.items())
    return Scenario(0.0, tuple(make_node(f"n{index}", gpus=8) for index in range(nodes)), queues, tuple(arrivals))
