"""A pending job in the scheduler's own terms: its queue, and the ways in which it could run.

Resolved once per *kind of request*, not per job: equal requests share one `Request`, one search and one refusal in a
cycle (Kueue calls this equivalence hashing).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from cotenant.core.allocation.allocation import tenant_of
from cotenant.core.gpus.inventory import BoolArray, GpuKind, Inventory, Rows
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import GpuRequest, Job
from cotenant.core.placement.fitting import Tenancy
from cotenant.core.placement.gang_request import PlacementRequest
from cotenant.core.placement.shapes import Shape, chief_of, worker_shape
from cotenant.core.quota.tree import Bucket, QueueTree

RequestKey: TypeAlias = tuple[object, ...]
GuaranteeTerms: TypeAlias = tuple[tuple[tuple[int, int], ...], ...]
"""Alternatives; each a set of (index of a quota line, milli-GPU that may be used of it already at most)."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One way to run the job: all workers on GPUs of one class (or of any, where `gpu_class` is empty)."""

    gpu_class: str
    placement_request: PlacementRequest
    cost: Amounts
    """Of one worker in quotas, on the most expensive kind of GPU that could serve."""
    buckets: tuple[Bucket, ...]
    limited: bool
    """Some quota line, user limit or lending limit may bind."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    job: Job
    """The first job with this request; the others are equal to it except in name and age."""
    queue: int
    options: tuple[Option, ...]
    """In order of preference."""
    ranked: bool
    """The order is the tenant's. Otherwise the best placement over all options is taken."""
    guarantee_terms: Mapping[int, GuaranteeTerms]
    """Queue on the path → terms under which it stays inside its guarantee."""
    workers: int = field(init=False)
    """Workers that must find a place together."""
    classes: tuple[str, ...] = field(init=False)
    """Classes of GPUs on which it may run."""

    def __post_init__(self) -> None:
        classes = {bucket[0] for option in self.options for bucket in option.buckets}
        object.__setattr__(self, "classes", tuple(sorted(classes)))
        object.__setattr__(self, "workers", self.job.workers_min)

    @property
    def least_milli(self) -> int:
        """Milli-GPU that all workers together cost at least in quotas."""
        return self.workers * min(option.cost.milli for option in self.options)

    @classmethod
    def of(cls, job: Job, options: tuple[Option, ...], tree: QueueTree) -> Request:
        queue = tree.index[job.queue]
        terms = {above: _guarantee_terms(tree, job.workers_min, options, above) for above in tree.paths[queue]}
        return cls(job, queue, options, bool(job.gpu.classes), terms)


def _guarantee_terms(tree: QueueTree, workers: int, options: Iterable[Option], queue: int) -> GuaranteeTerms:
    """One alternative per bucket that the gang could lie in: no line that guarantees something there is exceeded."""
    found: set[tuple[tuple[int, int], ...]] = set()
    for option in options:
        milli = workers * option.cost.milli
        for guarantees in {tree.guarantees(queue, bucket) for bucket in option.buckets}:
            if guarantees:
                found.add(tuple((line, guaranteed - milli) for line, guaranteed in guarantees))
    return tuple(sorted(found))


def request_key(job: Job) -> RequestKey:
    """Equal for jobs between which no rule of the scheduler distinguishes, except by age and name."""
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
        job.scratch_mib,
        job.chief_cpu_milli,
        job.chief_memory_mib,
        job.chief_scratch_mib,
        job.added_memory_mib,
        job.topology,
        job.spread,
        job.distinct_gpus,
        job.preemptible,
        job.evicts_from,
        job.excluded_nodes,
        job.only_nodes,
        job.volumes,
        job.move_asked,
    )


def options_of(job: Job, inventory: Inventory, tree: QueueTree) -> tuple[Option, ...]:
    """Every way to run the job that the quota lines of its path cover, whatever is free or used now."""
    queue, shape = tree.index[job.queue], worker_shape(job)
    tenancy, limited = Tenancy(tenant_of(job.queue, tree), job.gpu.sharing), tree.has_limits(queue)
    is_mixed = len(inventory.resources) > 1

    def option(classes: tuple[str, ...], resource: str, zones: Sequence[str]) -> Option | None:
        """Way to run on GPUs of these classes, which are handed out as this resource, in these zones."""
        kinds = tuple(kind for kind in inventory.kinds if kind.gpu_class in classes)
        narrowed = _narrowed(shape, classes, (resource,) if is_mixed else (), kinds) if zones else None
        if narrowed is None:
            return None
        narrow, cost = narrowed
        wanted = PlacementRequest(
            shape=narrow,
            chief=chief_of(job, narrow),
            tenancy=tenancy,
            rows=_rows_for(job, narrow, zones, inventory),
            distinct=job.distinct_gpus,
            topology=job.topology,
            spread=job.spread,
        )
        buckets = tuple((gpu_class, zone) for gpu_class in classes for zone in zones)
        return Option(narrow.only_class, wanted, cost, buckets, limited)

    ways = {(kind.gpu_class, kind.resource): None for kind in kinds_of(job.gpu, inventory)}
    zones = [zone for zone in inventory.zones if not job.gpu.zones or zone in job.gpu.zones]
    covered = {name: [zone for zone in zones if tree.path_quotas(queue, (name, zone)) is not None] for name, _ in ways}
    each = (option((gpu_class,), resource, covered[gpu_class]) for gpu_class, resource in ways)
    options = [one for one in each if one is not None]
    if not job.gpu.classes and len(options) > 1 and not _names_classes(tree, queue):
        classes, resource = tuple(gpu_class for gpu_class, _ in ways), next(iter(ways))[1]
        in_all = [zone for zone in zones if all(zone in covered[name] for name in classes)]
        mixed = option(classes, resource, in_all)
        if mixed is not None:
            # A single worker may lie on any class. A gang prefers one class; mixed classes are its last way to run.
            options = [mixed] if job.workers_max == 1 else [*options, mixed]
    return tuple(options)


@lru_cache(maxsize=4096)
def _narrowed(
    shape: Shape, classes: tuple[str, ...], resources: tuple[str, ...], kinds: tuple[GpuKind, ...]
) -> tuple[Shape, Amounts] | None:
    """The shape on GPUs of these classes, and its cost on the most expensive of these kinds that may serve. None if
    none may. Jobs of all queues share it."""
    narrow = replace(shape, only_class=classes[0] if len(classes) == 1 else "", only_resources=resources)
    costs = [narrow.cost(kind) for kind in kinds if narrow.allows(kind)]
    return (narrow, Amounts.largest(costs)) if costs else None


def kinds_of(gpu: GpuRequest, inventory: Inventory) -> tuple[GpuKind, ...]:
    """Kinds that are asked for, shared or not, in the order of preference. A request that names no class is for one
    kind of device, so that its ranks never lie on two.
    """
    if not gpu.classes:
        return tuple(kind for kind in inventory.kinds if kind.resource == inventory.default_resource)
    return tuple(kind for name in gpu.classes for kind in inventory.kinds if kind.gpu_class == name)


def _rows_for(job: Job, shape: Shape, zones: Sequence[str], inventory: Inventory) -> Rows:
    """Rows in these zones with GPUs of the shape's classes, as far as the job lets its workers lie there."""
    rows = inventory.rows_serving(tuple(zones), *((shape.classes, shape.only_class) if shape.count else ()))
    mountable = job.volumes.nodes if job.volumes else None
    chosen = [names for names in (job.only_nodes or None, mountable) if names is not None]
    if not chosen and not job.excluded_nodes:
        return rows
    allowed = np.zeros(len(inventory.nodes), dtype=np.bool_)
    allowed[rows] = True
    for names in chosen:
        allowed &= _named(names, inventory)
    return np.flatnonzero(allowed & ~_named(job.excluded_nodes, inventory))


def _named(names: Iterable[str], inventory: Inventory) -> BoolArray:
    """[N] nodes with one of these names."""
    found = np.zeros(len(inventory.nodes), dtype=np.bool_)
    found[[inventory.row_of[name] for name in names if name in inventory.row_of]] = True
    return found


def _names_classes(tree: QueueTree, queue: int) -> bool:
    """True if a quota line or user limit on the path is for one class."""
    return any(
        any(line.quota.gpu_class is not None for line in tree.quotas_of[ancestor])
        or any(line.limit.gpu_class is not None for line in tree.user_lines_of[ancestor])
        for ancestor in tree.paths[queue]
    )
