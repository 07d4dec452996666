"""Single changes of a waiting job's own spec, each kind at the mildest amount with which the job would start.

Every kind is one field that a tenant edits; smaller amounts are in `smaller_amounts`. The caller says what "would
start" means: see `smallest_change`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from cotenant.core.explain.deadline import Deadline
from cotenant.core.explain.smaller_amounts import (
    fewer_gpus,
    fewer_workers,
    less_on_host,
    smaller_share,
)
from cotenant.core.explain.spec_change import SpecChange, Starts, Surroundings, with_gpu
from cotenant.core.model.formatting import format_duration
from cotenant.core.model.objects import Job, Sharing, TopologyMode


def changes(job: Job, around: Surroundings, starts: Starts) -> Iterator[SpecChange]:
    """Changes with which the job would start, those that cost it least first."""

    def first(candidates: Iterable[SpecChange]) -> Iterator[SpecChange]:
        return islice((one for one in candidates if one.job is not None and starts(one.job, one.ends_by)), 1)

    sure_ends = (bounded_runtime(job, deadline) for deadline in around.deadlines)
    is_declared = bool(job.max_runtime_s or job.expected_runtime_s)
    yield from first(_softer_topology(job))
    yield from first(_softer_spread(job))
    yield from first(_more_names(job, "classes", "class", around.classes, takes_any=around.any_class))
    yield from first(_more_names(job, "zones", "zone", around.zones, takes_any=True))
    yield from first(_wider_sharing(job))
    if not is_declared:  # with a run time it may use GPUs that are kept for a job which starts later
        yield from first(sure_ends)
    yield from less_on_host(job, starts)
    yield from first(_ranks_together(job))
    yield from fewer_workers(job, around, starts)
    yield from fewer_gpus(job, starts)
    yield from smaller_share(job, starts)
    yield from first(_other_priorities(job, around))
    if is_declared:
        yield from first(sure_ends)


def _softer_topology(job: Job) -> Iterator[SpecChange]:
    topology = job.topology
    if topology is not None and topology.mode is TopologyMode.REQUIRED:
        softer = replace(job, topology=replace(topology, mode=TopologyMode.PREFERRED))
        words = f"its topology {topology.level} were Preferred instead of Required"
        yield SpecChange.of(words, softer, ("spec.topology.mode", "Preferred"))


def _softer_spread(job: Job) -> Iterator[SpecChange]:
    spread = job.spread
    if spread is not None and spread.mode is TopologyMode.REQUIRED:
        softer = replace(job, spread=replace(spread, mode=TopologyMode.PREFERRED, most=1))
        words = f"its spread over {spread.level}s were Preferred instead of Required"
        bound = [("spec.spread.maxWorkers", None)] if spread.most > 1 else []
        yield SpecChange.of(words, softer, ("spec.spread.mode", "Preferred"), *bound)


def _more_names(job: Job, field: str, what: str, names: Iterable[str], *, takes_any: bool) -> Iterator[SpecChange]:
    """One more class or zone, then any. `field`: of the `GpuRequest`, and of `spec.gpu`."""
    own, path = getattr(job.gpu, field), f"spec.gpu.{field}"
    if not own:
        return
    for name in (one for one in names if one not in own):
        wider = with_gpu(job, **{field: (*own, name)})
        yield SpecChange.of(f"it also allowed {what} {name}", wider, (path, [*own, name]))
    if takes_any:
        yield SpecChange.of(f"it allowed GPUs of any {what}", with_gpu(job, **{field: ()}), (path, None))


def _wider_sharing(job: Job) -> Iterator[SpecChange]:
    order = (Sharing.NEVER, Sharing.QUEUE, Sharing.ANY)
    for wider in order[order.index(job.gpu.sharing) + 1 :] if job.gpu.is_share else ():
        whom = "jobs of its queue" if wider is Sharing.QUEUE else "jobs of all queues"
        words = f"it shared its GPUs with {whom} (sharing: {wider.value})"
        yield SpecChange.of(words, with_gpu(job, sharing=wider), ("spec.gpu.sharing", wider.value))


def bounded_runtime(job: Job, deadline: Deadline) -> SpecChange:
    """The change that limits the run time, so that the job ends by the deadline as it is worded."""
    seconds, expected = deadline.seconds, job.expected_runtime_s
    too_long = expected is not None and expected > seconds
    bounded = replace(job, max_runtime_s=seconds, expected_runtime_s=seconds if too_long else expected)
    names = ("spec.expectedRuntime", "spec.maxRuntime") if too_long else ("spec.maxRuntime",)
    duration = format_duration(seconds)
    words = f"it were sure to end within {duration} (maxRuntime)"
    return SpecChange.of(words, bounded, *((name, duration) for name in names), ends_by=deadline.at)


def _ranks_together(job: Job) -> Iterator[SpecChange]:
    if job.workers_min > 1 and job.distinct_gpus and job.gpu.is_share:
        words = "its ranks may share a GPU (collective: gloo)"
        yield SpecChange.of(words, replace(job, distinct_gpus=False), ("spec.runtime.collective", "gloo"))


def _other_priorities(job: Job, around: Surroundings) -> Iterator[SpecChange]:
    no_class = [("spec.priorityClassName", None)] if job.priority_class else []
    for priority in around.priorities:
        first = replace(job, priority=priority, priority_class="")
        yield SpecChange.of(f"its priority were {priority}", first, ("spec.priority", priority), *no_class)
