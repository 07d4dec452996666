"""The openb lists and the published protocol around them: order, inflation, one pass. Pure numpy.

The protocol is the one of the FGD artifact (Weng et al.,
"Beware of Fragmentation", USENIX ATC 2023): shuffle, inflate to 130 % of the cluster's GPUs by drawing clones, let the
pods arrive one by one, drop what does not fit, never move or remove anything.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WHOLE = 1000
SLOTS = 8
"""GPUs of a node, at most."""
INFLATION = 1.3
LISTS = (
    "default",
    *(f"cpu{x}" for x in ("050", "100", "200", "250")),
    *(f"gpushare{x}" for x in (40, 60, 80, 100)),
    *(f"multigpu{x}" for x in (20, 30, 40, 50)),
    *(f"gpuspec{x}" for x in (10, 20, 25, 33)),
)


@dataclass(frozen=True, slots=True)
class PodShape:
    """Request of a pod: milli-CPU, MiB, number of GPUs. `milli` is per GPU; `models` is empty for any model."""

    cpu: int
    memory: int
    count: int
    milli: int
    models: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.count * self.milli

    @property
    def is_share(self) -> bool:
        return self.count == 1 and self.milli < WHOLE


@dataclass(frozen=True, slots=True)
class Machines:
    """The cluster as it starts: one row per node. `free` is 0 where a node has fewer GPUs than SLOTS."""

    cpu: NDArray[np.int64]
    memory: NDArray[np.int64]
    free: NDArray[np.int64]
    model: NDArray[np.int64]
    models: tuple[str, ...]

    @property
    def milli(self) -> int:
        return int(self.free.sum())

    def take(self, rows: NDArray[np.int64]) -> Machines:
        return replace(self, cpu=self.cpu[rows], memory=self.memory[rows], free=self.free[rows], model=self.model[rows])


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        raise SystemExit(f"{path}: no such list; point --traces at the folder of openb_*.csv[.gz]")
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return list(csv.DictReader(text.decode().splitlines()))


def _find(traces: Path, stem: str) -> Path:
    plain = traces / f"{stem}.csv"
    return plain if plain.exists() else traces / f"{stem}.csv.gz"


def read_machines(traces: Path) -> Machines:
    rows = _rows(_find(traces, "openb_node_list_gpu_node"))
    models = tuple(sorted({row["model"] for row in rows}))
    free = np.zeros((len(rows), SLOTS), dtype=np.int64)
    for i, row in enumerate(rows):
        free[i, : int(row["gpu"])] = WHOLE
    return Machines(
        cpu=np.array([int(row["cpu_milli"]) for row in rows]),
        memory=np.array([int(row["memory_mib"]) for row in rows]),
        free=free,
        model=np.array([models.index(row["model"]) for row in rows]),
        models=models,
    )


def read_pods(traces: Path, name: str) -> list[PodShape]:
    """The pods of one list, in the list's own order (it is sorted by name)."""
    pods = []
    for row in _rows(_find(traces, f"openb_pod_list_{name}")):
        count = int(row["num_gpu"])
        pods.append(
            PodShape(
                cpu=int(row["cpu_milli"]),
                memory=int(row["memory_mib"]),
                count=count,
                milli=int(row["gpu_milli"] or 0) if count else 0,
                models=tuple(sorted(set((row.get("gpu_spec") or "").split("|")) - {""})) if count else (),
            )
        )
    return pods


def arrivals(pods: list[PodShape], capacity_milli: int, rng: np.random.Generator) -> list[PodShape]:
    """One run's order: a shuffle of the list, then clones until 130 % of the GPUs are asked for.

    A list that starts above 130 % loses pods at random instead.
    """
    order = [pods[i] for i in rng.permutation(len(pods))]
    target = INFLATION * capacity_milli
    asked = sum(pod.total for pod in order)
    while asked > target:
        asked -= order.pop(int(rng.integers(len(order)))).total
    if asked == 0:
        return order
    while True:
        clone = pods[int(rng.integers(len(pods)))]
        if asked + clone.total > target:
            return order
        order.append(clone)
        asked += clone.total
