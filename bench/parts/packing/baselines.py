"""The pass over one list, and the published policies it compares with: Random, BestFit, FGD.

A policy scores rows (nodes) for a shape; the pass keeps those scores per shape and asks again only for the nodes that
changed since. FGD follows the artifact of Weng et al. (USENIX ATC 2023) to the letter: it is told the list's shapes in
advance, quantises a sigmoid to integers, and breaks ties by first fit over randomly prefixed node names.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.parts.packing.openb import SLOTS, WHOLE, Machines, PodShape

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NEVER = -np.inf


class BaselineLedger:
    """Free resources of the cluster, with the nodes in the order in which this run's tie-break walks them."""

    def __init__(self, machines: Machines) -> None:
        self.cpu = machines.cpu.copy()
        self.memory = machines.memory.copy()
        self.free = machines.free.copy()
        self.model = machines.model
        self.models = machines.models
        self.changed: list[int] = []

    def allowed(self, shape: PodShape) -> NDArray[np.bool_]:
        """Models that the shape may use, as a mask over model indices."""
        return np.array([not shape.models or model in shape.models for model in self.models])

    def fits(self, shape: PodShape, rows: Ints) -> NDArray[np.bool_]:
        """Everything but host memory, which is not part of a scoring shape."""
        enough = (self.free[rows] >= shape.milli).sum(axis=1) >= shape.count
        fitting: NDArray[np.bool_] = (
            (self.cpu[rows] >= shape.cpu) & (enough | (shape.count == 0)) & self.allowed(shape)[self.model[rows]]
        )
        return fitting

    def place(self, row: int, shape: PodShape, gpu: int) -> None:
        """A share goes to `gpu`; whole GPUs are the first free ones."""
        if shape.is_share:
            self.free[row, gpu] -= shape.milli
        elif shape.count:
            self.free[row, np.flatnonzero(self.free[row] >= shape.milli)[: shape.count]] -= shape.milli
        self.cpu[row] -= shape.cpu
        self.memory[row] -= shape.memory
        if self.cpu[row] < 0 or self.memory[row] < 0 or self.free[row].min() < 0:
            raise AssertionError(f"overcommitted row {row} with {shape}")
        self.changed.append(row)


class ScoringPolicy(Protocol):
    def score(self, ledger: BaselineLedger, shape: PodShape, rows: Ints) -> tuple[Floats, Ints]:
        """For each row that fits: its score (higher is better) and the GPU that a share would take."""
        ...


class CachedScores:
    """Chooses nodes for one run: a policy's scores, kept per shape and refreshed for changed nodes only."""

    def __init__(
        self, policy: ScoringPolicy, ledger: BaselineLedger, random_ties: np.random.Generator | None = None
    ) -> None:
        self._policy, self._ledger, self._ties = policy, ledger, random_ties
        self._known: dict[PodShape, tuple[Floats, Ints]] = {}
        self._seen: dict[PodShape, int] = {}

    def place(self, shape: PodShape) -> bool:
        ledger = self._ledger
        key = PodShape(shape.cpu, 0, shape.count, shape.milli, shape.models)
        if key not in self._known:
            size = len(ledger.cpu)
            self._known[key] = (np.full(size, NEVER), np.zeros(size, dtype=np.int64))
            stale = np.arange(size)
        else:
            stale = np.array(sorted(set(ledger.changed[self._seen[key] :])), dtype=np.int64)
        scores, gpus = self._known[key]
        self._seen[key] = len(ledger.changed)
        if len(stale):
            fits = ledger.fits(key, stale)
            scores[stale[~fits]] = NEVER
            if fits.any():
                rows = stale[fits]
                scores[rows], gpus[rows] = self._policy.score(ledger, key, rows)
        row = self._best(scores, shape)
        if row is None:
            return False
        ledger.place(row, shape, int(gpus[row]))
        return True

    def _best(self, scores: Floats, shape: PodShape) -> int | None:
        roomy = np.where(self._ledger.memory >= shape.memory, scores, NEVER)
        row = int(roomy.argmax())
        if roomy[row] == NEVER:
            return None
        if self._ties is not None:
            return int(self._ties.choice(np.flatnonzero(roomy == roomy[row])))
        return row


def tightest(free: Ints, milli: int) -> Ints:
    """Per row, the GPU with the least room that still fits."""
    gpus: Ints = np.where(free >= milli, free, WHOLE + 1).argmin(axis=1)
    return gpus


class RandomFit:
    """One random feasible node, one random feasible GPU."""

    def __init__(self, ledger: BaselineLedger, rng: np.random.Generator) -> None:
        self._ledger, self._rng = ledger, rng
        self._all = np.arange(len(ledger.cpu))

    def place(self, shape: PodShape) -> bool:
        ledger = self._ledger
        rows = np.flatnonzero(ledger.fits(shape, self._all) & (ledger.memory >= shape.memory))
        if not len(rows):
            return False
        row = int(self._rng.choice(rows))
        gpu = int(self._rng.choice(np.flatnonzero(ledger.free[row] >= shape.milli))) if shape.count else 0
        ledger.place(row, shape, gpu)
        return True


class BestFit:
    """Least CPU and GPU left after, each relative to the largest node; integers from 0 to 100 as in the artifact."""

    def score(self, ledger: BaselineLedger, shape: PodShape, rows: Ints) -> tuple[Floats, Ints]:
        cpu_left = (ledger.cpu[rows] - shape.cpu) / 128_000
        gpu_left = (ledger.free[rows].sum(axis=1) - shape.total) / (SLOTS * WHOLE)
        score = np.trunc(100 * (1 - cpu_left / 2 - gpu_left / 2))
        return score, tightest(ledger.free[rows], shape.milli)


class Fgd:
    """Fragmentation gradient descent, as published, with its oracle of typical pods."""

    COVER = 0.95

    def __init__(self, ledger: BaselineLedger, pods: list[PodShape]) -> None:
        typical = self._typical(pods)
        self._p = np.array([share for _, share in typical])
        self._cpu = np.array([shape.cpu for shape, _ in typical])
        self._count = np.array([shape.count for shape, _ in typical])
        self._allowed = np.array([ledger.allowed(shape) & (shape.count > 0) for shape, _ in typical]).T
        levels, self._level = np.unique([shape.milli for shape, _ in typical], return_inverse=True)
        free = np.arange(WHOLE + 1)[:, None]
        self._open = (free >= levels).astype(np.int32)
        """free milli × level → 1 where a GPU with so much free can take that level."""
        self._room = self._open * free.astype(np.int32)

    @classmethod
    def _typical(cls, pods: list[PodShape]) -> list[tuple[PodShape, float]]:
        counts = Counter(PodShape(pod.cpu, 0, pod.count, pod.milli, pod.models) for pod in pods)
        order = sorted(counts, key=lambda s: (counts[s], s.cpu, s.milli, s.count, s.models), reverse=True)
        chosen: list[PodShape] = []
        covered = 0
        while covered < cls.COVER * len(pods):
            chosen.append(order[len(chosen)])
            covered += counts[chosen[-1]]
        return [(shape, counts[shape] / covered) for shape in chosen]

    def _usable(self, opened: Ints, room: Ints, cpu: Ints, model: Ints) -> Floats:
        """R − F: the free milli-GPU of GPUs that a typical pod could use, in expectation. One row per node."""
        able = (opened[:, self._level] >= self._count) & (cpu[:, None] >= self._cpu) & self._allowed[model]
        expected: Floats = np.where(able, room[:, self._level], 0) @ self._p
        return expected

    def fragmentation(self, free: Ints, cpu: Ints, model: Ints) -> Floats:
        """F: milli-GPU that a typical pod cannot use, per node."""
        usable = self._usable(self._open[free].sum(axis=1), self._room[free].sum(axis=1), cpu, model)
        unusable: Floats = free.sum(axis=1) - usable
        return unusable

    def score(self, ledger: BaselineLedger, shape: PodShape, rows: Ints) -> tuple[Floats, Ints]:
        free, cpu, model = ledger.free[rows], ledger.cpu[rows], ledger.model[rows]
        if not shape.is_share:
            taken = (free >= WHOLE) & ((free >= WHOLE).cumsum(axis=1) <= shape.count)
            after = self.fragmentation(np.where(taken, 0, free), cpu - shape.cpu, model)
            return self._quantised(self.fragmentation(free, cpu, model) - after), np.zeros(len(rows), dtype=np.int64)
        opened, room = self._open[free].sum(axis=1), self._room[free].sum(axis=1)
        before = free.sum(axis=1) - self._usable(opened, room, cpu, model)
        row, gpu = np.nonzero(free >= shape.milli)
        old = free[row, gpu]
        new = old - shape.milli
        usable = self._usable(
            opened[row] - self._open[old] + self._open[new],
            room[row] - self._room[old] + self._room[new],
            cpu[row] - shape.cpu,
            model[row],
        )
        delta = np.full(free.shape, NEVER)
        delta[row, gpu] = before[row] - (free[row].sum(axis=1) - shape.milli - usable)
        best = delta.argmax(axis=1)
        return self._quantised(delta[np.arange(len(rows)), best]), best

    @staticmethod
    def _quantised(delta: Floats) -> Floats:
        return np.trunc(100 / (1 + np.exp(-delta / 1000)))
