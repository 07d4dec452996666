"""Single changes of a waiting job's own spec, each kind at the mildest amount with which the job would start.

Every kind is one field that a tenant edits; smaller amounts are in `smaller_amounts`. The caller says what "would
start" means: see `smallest_change`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

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
    yield from _softer_topology(job, starts)
    yield from _softer_spread(job, starts)
    yield from _other_class(job, around, starts)
    yield from _other_zone(job, around, starts)
    yield from _wider_sharing(job, starts)
    yield from _declared_runtime(job, around, starts)
    yield from less_on_host(job, starts)
    yield from _ranks_together(job, starts)
    yield from fewer_workers(job, around, starts)
    yield from fewer_gpus(job, starts)
    yield from smaller_share(job, starts)
    yield from _higher_priority(job, around, starts)
    yield from _shorter_runtime(job, around, starts)


def _softer_topology(job: Job, starts: Starts) -> Iterator[SpecChange]:
    topology = job.topology
    if topology is None or topology.mode is not TopologyMode.REQUIRED:
        return
    softer = replace(job, topology=replace(topology, mode=TopologyMode.PREFERRED))
    if starts(softer):
        words = f"its topology {topology.level} were Preferred instead of Required"
        yield SpecChange(words, (("spec.topology.mode", '"Preferred"'),), softer)


def _softer_spread(job: Job, starts: Starts) -> Iterator[SpecChange]:
    spread = job.spread
    if spread is None or spread.mode is not TopologyMode.REQUIRED:
        return
    softer = replace(job, spread=replace(spread, mode=TopologyMode.PREFERRED, most=1))
    if starts(softer):
        words = f"its spread over {spread.level}s were Preferred instead of Required"
        fields: tuple[tuple[str, str], ...] = (("spec.spread.mode", '"Preferred"'),)
        if spread.most > 1:
            fields = (*fields, ("spec.spread.maxWorkers", "null"))
        yield SpecChange(words, fields, softer)


def _other_class(job: Job, around: Surroundings, starts: Starts) -> Iterator[SpecChange]:
    if not job.gpu.classes:
        return
    for name in (one for one in around.classes if one not in job.gpu.classes):
        wider = with_gpu(job, replace(job.gpu, classes=(*job.gpu.classes, name)))
        if starts(wider):
            yield SpecChange(f"it also allowed class {name}", (("spec.gpu.classes", _list(wider.gpu.classes)),), wider)
            return
    anywhere = with_gpu(job, replace(job.gpu, classes=()))
    if around.any_class and starts(anywhere):
        yield SpecChange("it allowed GPUs of any class", (("spec.gpu.classes", "null"),), anywhere)


def _other_zone(job: Job, around: Surroundings, starts: Starts) -> Iterator[SpecChange]:
    if not job.gpu.zones:
        return
    for name in (one for one in around.zones if one not in job.gpu.zones):
        wider = with_gpu(job, replace(job.gpu, zones=(*job.gpu.zones, name)))
        if starts(wider):
            yield SpecChange(f"it also allowed zone {name}", (("spec.gpu.zones", _list(wider.gpu.zones)),), wider)
            return
    anywhere = with_gpu(job, replace(job.gpu, zones=()))
    if starts(anywhere):
        yield SpecChange("it allowed GPUs of any zone", (("spec.gpu.zones", "null"),), anywhere)


def _wider_sharing(job: Job, starts: Starts) -> Iterator[SpecChange]:
    order = (Sharing.NEVER, Sharing.QUEUE, Sharing.ANY)
    if not job.gpu.is_share:
        return
    for wider in order[order.index(job.gpu.sharing) + 1 :]:
        shared = with_gpu(job, replace(job.gpu, sharing=wider))
        if starts(shared):
            whom = "jobs of its queue" if wider is Sharing.QUEUE else "jobs of all queues"
            words = f"it shared its GPUs with {whom} (sharing: {wider.value})"
            yield SpecChange(words, (("spec.gpu.sharing", f'"{wider.value}"'),), shared)
            return


def _declared_runtime(job: Job, around: Surroundings, starts: Starts) -> Iterator[SpecChange]:
    """A job that says how long it runs at most may use GPUs that are kept for a job which starts later."""
    if job.max_runtime_s is None and job.expected_runtime_s is None:
        yield from _bounded_runtime(job, around.deadlines, starts)


def _shorter_runtime(job: Job, around: Surroundings, starts: Starts) -> Iterator[SpecChange]:
    said = job.max_runtime_s or job.expected_runtime_s
    if said is not None:
        yield from _bounded_runtime(job, [one for one in around.deadlines if one.seconds < said], starts)


def _bounded_runtime(job: Job, deadlines: Sequence[Deadline], starts: Starts) -> Iterator[SpecChange]:
    for deadline in deadlines:
        change = bounded_runtime(job, deadline)
        if change.job is not None and starts(change.job, deadline.at):
            yield change
            return


def bounded_runtime(job: Job, deadline: Deadline) -> SpecChange:
    """The change that limits the run time, so that the job ends by the deadline as it is worded."""
    seconds, expected = deadline.seconds, job.expected_runtime_s
    too_long = expected is not None and expected > seconds
    bounded = replace(job, max_runtime_s=seconds, expected_runtime_s=seconds if too_long else expected)
    names = ("spec.expectedRuntime", "spec.maxRuntime") if too_long else ("spec.maxRuntime",)
    duration = format_duration(seconds)
    words = f"it were sure to end within {duration} (maxRuntime)"
    return SpecChange(words, tuple((name, f'"{duration}"') for name in names), bounded, deadline.at)


def _ranks_together(job: Job, starts: Starts) -> Iterator[SpecChange]:
    if job.workers_min == 1 or not job.distinct_gpus or not job.gpu.is_share:
        return
    together = replace(job, distinct_gpus=False)
    if starts(together):
        words = "its ranks may share a GPU (collective: gloo)"
        yield SpecChange(words, (("spec.runtime.collective", '"gloo"'),), together)


def _higher_priority(job: Job, around: Surroundings, starts: Starts) -> Iterator[SpecChange]:
    for priority in around.priorities:
        first = replace(job, priority=priority, priority_class="")
        if starts(first):
            fields: tuple[tuple[str, str], ...] = (("spec.priority", str(priority)),)
            if job.priority_class:
                fields = (*fields, ("spec.priorityClassName", "null"))
            yield SpecChange(f"its priority were {priority}", fields, first)
            return


def _list(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
