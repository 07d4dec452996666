"""Workloads for judging estimates, drawn from a seed or from published lists. Seeds from 200 on only judge."""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from cotenant.core.model.objects import Job, TimeOrder
from cotenant.simulator.scenario import Arrival, Scenario
from tests.support.clusters import make_job, make_node, make_queue

Declares = Callable[[random.Random, float], int | None]
"""(dice, true run time) → what is declared."""
SPREAD = 0.3
"""Standard deviation of the logarithm of run times of one template."""
NOISE = NormalDist(0.3, 0.6)
"""The logarithm of the factor by which noisy declarations are wrong."""
DECLARATIONS: dict[str, Declares] = {
    "honest": lambda _, true: max(1, int(true)),
    "noisy": lambda dice, true: max(1, int(true * dice.lognormvariate(NOISE.mean, NOISE.stdev))),
    "none": lambda _, true: None,
}
_LEAST_S = 60.0


@dataclass(frozen=True, slots=True)
class _Setting:
    """The draws of a seed before any job."""

    load: float
    nodes: int
    queues: list[str]
    priorities: tuple[int, ...]
    order: TimeOrder
    templates: list[tuple[str, int, int, float]]
    """(queue, GPUs of a worker, workers, typical run time)."""

    @classmethod
    def drawn(cls, dice: random.Random) -> _Setting:
        load, nodes = dice.uniform(0.8, 1.3), dice.choice((2, 3, 4))
        names = ["red", "blue", "green"][: dice.choice((1, 2, 2, 3))]
        levels = dice.choice(((0,), (0,), (0, 0, 0, 10)))
        order = dice.choice((TimeOrder.AGE, TimeOrder.AGE, TimeOrder.LEAST_SERVICE))
        templates = [
            (dice.choice(names), dice.choice((1, 1, 1, 2, 4, 8)), dice.choice((1, 1, 2)), dice.lognormvariate(7.0, 1.0))
            for _ in range(12)
        ]
        return cls(load, nodes, names, levels, order, templates)


def typical_s(seed: int) -> list[float]:
    """Typical run time of each template of a synthetic workload, by its number."""
    return [seconds for *_, seconds in _Setting.drawn(random.Random(seed)).templates]


def template_of(job: Job) -> int:
    """Number of the template of a synthetic job, or of a repeated arrival of it in a play."""
    return int(job.key.rpartition("/")[2].partition("-")[0].removeprefix("t"))


def synthetic(seed: int, declares: Declares, *, jobs: int, load: float | None = None) -> Scenario:
    """Poisson arrivals; templates with log-normal run times and sizes as in published clusters.

    The seed draws the load (0.8 to 1.3) if none is given, the nodes, how many queues share them with guarantees,
    whether jobs are gangs, whether they have priorities, and how a queue orders its jobs.
    """
    dice = random.Random(seed)
    setting = _Setting.drawn(dice)
    nodes, names, templates = setting.nodes, setting.queues, setting.templates
    mean = sum(gpus * workers * seconds for _, gpus, workers, seconds in templates) / len(templates)
    rate = (load or setting.load) * nodes * 8 / mean / 1.046
    at, arrivals = 0.0, []
    for number in range(jobs):
        at += dice.expovariate(rate)
        which = dice.randrange(len(templates))
        queue, gpus, workers, seconds = templates[which]
        true = max(30.0, seconds * dice.lognormvariate(0.0, SPREAD))
        job = make_job(
            f"t{which}-{number}",
            queue=queue,
            gpus=gpus,
            workers=workers,
            priority=dice.choice(setting.priorities),
            at=at,
            expected_runtime_s=declares(dice, true),
        )
        arrivals.append(Arrival(at, job, true))
    share = nodes * 8 // len(names)
    queues = tuple(make_queue(name, guaranteed=share, order=setting.order) for name in names)
    return Scenario(0.0, tuple(make_node(f"n{index}", gpus=8) for index in range(nodes)), queues, tuple(arrivals))


def traced(path: Path, declares: Declares, *, jobs: int, load: float | None = None) -> Scenario:
    """GPU pods of an openb list with a known end, on as many nodes as make this load (1.05)."""
    dice = random.Random(7)
    rows = [row for row in _rows(path) if int(row["num_gpu"]) > 0 and row["deletion_time"]]
    rows = [row for row in rows if float(row["deletion_time"]) - float(row["creation_time"]) >= _LEAST_S][-jobs:]
    arrivals: list[Arrival] = []
    for number, row in enumerate(sorted(rows, key=lambda row: float(row["creation_time"]))):
        at = float(row["creation_time"])
        true = float(row["deletion_time"]) - at
        gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"])
        share = milli if gpus == 1 and milli < 1000 else None
        job = make_job(f"pod-{number}", gpus=gpus, milli=share, at=at, expected_runtime_s=declares(dice, true))
        arrivals.append(Arrival(at, job, true))
    start, end = arrivals[0].at, arrivals[-1].at
    held = sum(one.train_s * one.job.gpu.count * (one.job.gpu.memory_milli or 1000) / 1000 for one in arrivals)
    nodes = max(1, round(held / max(1.0, end - start) / 8 / (load or 1.05)))
    queues = (make_queue("red", guaranteed=nodes * 8),)
    return Scenario(start, tuple(make_node(f"n{n}", gpus=8) for n in range(nodes)), queues, tuple(arrivals))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield from csv.DictReader(file)
