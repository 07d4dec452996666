"""A pending job in the scheduler's own terms: its queue, and the ways in which it could run.

Resolved once per *kind of request*, not per job: equal requests share one `Request`, one search and one refusal in a
cycle (Kueue calls this equivalence hashing).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from cotenant.core.allocation.allocation import tenant_of
from cotenant.core.gpus.inventory import BoolArray, Inventory
from cotenant.core.model.objects import Job
from cotenant.core.placement.fitting import Rows, Tenancy
from cotenant.core.placement.gang import PlacementRequest
from cotenant.core.placement.shapes import Shape, worker_shape
from cotenant.core.quota.tree import Bucket, QueueTree

RequestKey: TypeAlias = tuple[object, ...]
GuaranteeTerms: TypeAlias = tuple[tuple[tuple[int, int], ...], ...]
"""Alternatives; each a set of (index of a quota line, milli-GPU that may be used of it already at most)."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One way to run the job: all workers on GPUs of one class (or of any, where `gpu_class` is empty)."""

    gpu_class: str
    placement_request: PlacementRequest
    milli: int
    """Cost of one worker in quotas, at most, over the kinds of GPU that could serve."""
    mib: int
    buckets: tuple[Bucket, ...]
    limited: bool
    """Some quota line, user limit or lending limit may bind."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    job: Job
    """The first job with this request; others are equal in everything that matters here."""
    queue: int
    options: tuple[Option, ...]
    """In order of preference."""
    ranked: bool
    """The order is the tenant's. Otherwise the best placement over all options is taken."""
    guarantee_terms: dict[int, GuaranteeTerms] = field(default_factory=dict)
    """Queue on the path → terms under which it stays inside its guarantee; filled on demand."""

    @property
    def workers(self) -> int:
        return self.job.workers_min

    @property
    def classes(self) -> tuple[str, ...]:
        """Of GPUs on which it may run."""
        return tuple(sorted({bucket[0] for option in self.options for bucket in option.buckets}))


def request_key(job: Job) -> RequestKey:
    """Equal for jobs that differ in age and name alone, as far as any rule of the scheduler goes."""
    return (
        job.queue,
        job.namespace,
        job.user,
        job.priority,
        job.priority_class,
        job.workers_min,
        job.workers_max == 1,  # it chooses freely among classes
        job.gpu,
        job.cpu_milli,
        job.memory_mib,
        job.topology,
        job.distinct_gpus,
        job.preemptible,
        job.excluded_nodes,
    )


def options_of(job: Job, inventory: Inventory, tree: QueueTree) -> tuple[Option, ...]:
    """Every way to run the job that its queue's lines cover at all, whatever is free or used now."""
    queue = tree.index[job.queue]
    present = sorted({kind.gpu_class for kind in inventory.kinds})
    classes = [name for name in (job.gpu.classes or present) if name in present]
    options = []
    for gpu_class in classes:
        option = _option(job, queue, (gpu_class,), inventory, tree)
        if option is not None:
            options.append(option)
    if not job.gpu.classes and len(options) > 1 and not _names_classes(tree, queue):
        mixed = _option(job, queue, tuple(classes), inventory, tree)
        if mixed is not None:
            # One worker may as well choose freely; a gang prefers one class and is mixed only as the last way.
            options = [mixed] if job.workers_max == 1 else [*options, mixed]
    return tuple(options)


def _option(job: Job, queue: int, classes: Sequence[str], inventory: Inventory, tree: QueueTree) -> Option | None:
    zones = [
        zone
        for zone in inventory.zones
        if (not job.gpu.zones or zone in job.gpu.zones)
        and all(tree.path_quotas(queue, (gpu_class, zone)) is not None for gpu_class in classes)
    ]
    shape = worker_shape(job)
    if len(classes) == 1:
        shape = replace(shape, only_class=classes[0])
    kinds = [kind for kind in inventory.kinds if kind.gpu_class in classes and shape.allows(kind)]
    if not zones or not kinds:
        return None
    allowed = _allowed(job, zones, inventory)
    return Option(
        gpu_class=classes[0] if len(classes) == 1 else "",
        placement_request=PlacementRequest(
            shape=shape,
            tenancy=Tenancy(tenant_of(job.queue, tree), job.gpu.sharing),
            allowed=allowed,
            unrestricted=bool(allowed.all()),
            rows=rows_of(shape, allowed, inventory),
            distinct=job.distinct_gpus,
            topology=job.topology,
        ),
        milli=max(shape.cost(kind) for kind in kinds),
        mib=max(shape.per_gpu(kind)[0] for kind in kinds) * shape.count,
        buckets=tuple((gpu_class, zone) for gpu_class in classes for zone in zones),
        limited=tree.has_limits(queue),
    )


def _allowed(job: Job, zones: Sequence[str], inventory: Inventory) -> BoolArray:
    serves = np.array([zone in zones for zone in inventory.zones], dtype=np.bool_)
    allowed: BoolArray = serves[inventory.zone]
    for name in job.excluded_nodes:
        row = inventory.row_of.get(name)
        if row is not None:
            allowed[row] = False
    return allowed


def rows_of(shape: Shape, allowed: BoolArray, inventory: Inventory) -> Rows:
    """Rows that are allowed and have a GPU of the shape's classes."""
    if shape.count and (shape.classes or shape.only_class):
        allowed = allowed & inventory.rows_of_classes(shape.classes, shape.only_class)
    return slice(None) if allowed.all() else np.flatnonzero(allowed)


def _names_classes(tree: QueueTree, queue: int) -> bool:
    return any(line.quota.gpu_class is not None for ancestor in tree.paths[queue] for line in tree.quotas_of[ancestor])
