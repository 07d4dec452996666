"""Shapes: what one worker, or several side by side, need of one node. The unit that is filtered, scored and cached.

A shape carries no job, queue or moment, so equal requests of different jobs share scores. One worker is a shape;
several workers side by side on one node are one merged shape (`times`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, GpuKind, IntArray, Inventory
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import WHOLE, Job


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Shape:
    count: int = 1
    """Distinct GPUs taken on one node; 0 asks for amounts of the host only."""
    whole: bool = True
    """Each GPU entirely. Otherwise each of them gives the share below."""
    memory_mib: int = 0
    """Share in MiB, or 0 when it is given in milli."""
    memory_milli: int = 0
    """Share of the GPU's memory in milli, or 0 when it is given in MiB or follows compute."""
    compute_milli: int = 0
    """0: follows memory."""
    cpu_milli: int = 0
    host_mib: int = 0
    scratch_mib: int = 0
    classes: tuple[str, ...] = ()
    """Classes of the job's request, sorted. Empty: any class."""
    only_class: str = ""
    """Narrows the placement to one class of those (quota, or one class per gang). Scarcity reads `classes`, the filter
    reads both."""
    only_resources: tuple[str, ...] = ()
    """Narrows the placement to these kinds of devices. Empty: any, where the cluster has one kind."""

    _hash: int = field(init=False, repr=False, compare=False)
    """Of the amounts; a shape is looked up far more often than it is made."""

    def __post_init__(self) -> None:
        amounts = (self.count, self.whole, self.memory_mib, self.memory_milli, self.compute_milli, self.cpu_milli)
        narrowed = (self.host_mib, self.scratch_mib, self.classes, self.only_class, self.only_resources)
        object.__setattr__(self, "_hash", hash((amounts, narrowed)))

    def __hash__(self) -> int:
        return self._hash

    def times(self, workers: int) -> Shape:
        """`workers` of these on one node, each on GPUs of its own."""
        return replace(
            self,
            count=self.count * workers,
            cpu_milli=self.cpu_milli * workers,
            host_mib=self.host_mib * workers,
            scratch_mib=self.scratch_mib * workers,
        )

    def per_gpu(self, kind: GpuKind) -> tuple[int, int]:
        """(MiB, milli) that one GPU of this kind gives. Shares round down: n equal n-ths always fit on one GPU."""
        if self.whole:
            return kind.memory_mib, WHOLE
        if self.memory_mib:
            memory = self.memory_mib
        else:
            memory = max(1, kind.memory_mib * (self.memory_milli or self.compute_milli) // WHOLE)
        compute = self.compute_milli or self.memory_milli or max(1, memory * WHOLE // max(1, kind.memory_mib))
        return memory, compute

    def cost(self, kind: GpuKind) -> Amounts:
        """What quotas count over all `count` GPUs. A part of a GPU's memory costs that part, although its MiB are
        rounded down."""
        memory, compute = self.per_gpu(kind)
        return Amounts.of_share(memory, max(compute, min(WHOLE, self.memory_milli)), kind.memory_mib).times(self.count)

    def allows(self, kind: GpuKind) -> bool:
        if self.classes and kind.gpu_class not in self.classes:
            return False
        if self.only_class and kind.gpu_class != self.only_class:
            return False
        if kind.whole_only and not self.whole:
            return False
        if self.only_resources and kind.resource not in self.only_resources:
            return False
        memory, compute = self.per_gpu(kind)
        return memory <= kind.memory_mib and compute <= WHOLE

    def per_kind(self, inventory: Inventory) -> tuple[IntArray, IntArray, BoolArray]:
        """Per kind of the inventory: MiB, milli, and whether the kind may serve at all."""
        pairs = [self.per_gpu(kind) for kind in inventory.kinds]
        memory = np.array([memory for memory, _ in pairs], dtype=np.int64)
        compute = np.array([compute for _, compute in pairs], dtype=np.int64)
        return memory, compute, np.array([self.allows(kind) for kind in inventory.kinds], dtype=np.bool_)


@lru_cache(maxsize=4096)
def without_classes(shape: Shape) -> Shape:
    """The same amounts, on GPUs of any class."""
    return replace(shape, classes=(), only_class="")


@lru_cache(maxsize=4096)
def one_gpu_of(shape: Shape) -> Shape:
    """What one of its GPUs gives, without the rest of the node."""
    return replace(shape, count=1, cpu_milli=0, host_mib=0, scratch_mib=0)


@lru_cache(maxsize=4096)
def rougher(shape: Shape) -> Shape:
    """A shape that needs no more of any node, so that no node's score for it is lower. Many shapes share it."""
    sizes = (shape.memory_mib, 1_024), (shape.memory_milli, 50), (shape.compute_milli, 50)
    mib, memory, compute = (size // step * step or size for size, step in sizes)  # 0 would mean the other size
    bare = replace(without_classes(shape), cpu_milli=0, host_mib=0, scratch_mib=0)
    return replace(bare, memory_mib=mib, memory_milli=memory, compute_milli=compute)


Demand: TypeAlias = tuple[Shape, float]
"""(shape, its weight among what is queued, running, or ran lately)."""
_SHAPES = 1_024


def heaviest(weights: Mapping[Shape, float]) -> tuple[Demand, ...]:
    """The weights in order of the shapes; of many shapes only the heaviest `_SHAPES`, so that thousands of jobs that
    all differ do not make every cycle longer."""
    return tuple(sorted(sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:_SHAPES]))


def worker_shape(job: Job) -> Shape:
    request = job.gpu
    return Shape(
        count=request.count,
        whole=not request.is_share,
        memory_mib=request.memory_mib or 0,
        memory_milli=request.memory_milli or 0,
        compute_milli=request.compute_milli or 0,
        cpu_milli=job.cpu_milli,
        host_mib=job.memory_mib,
        scratch_mib=job.scratch_mib,
        classes=tuple(sorted(request.classes)),
    )


def chief_of(job: Job, shape: Shape) -> Shape | None:
    """Shape of rank 0, if it asks for more than `shape`, that of every worker; else None."""
    every = shape.cpu_milli, shape.host_mib, shape.scratch_mib
    cpu, host, scratch = map(max, job.chief_amounts, every)
    if (cpu, host, scratch) == every:
        return None
    return replace(shape, cpu_milli=cpu, host_mib=host, scratch_mib=scratch)
