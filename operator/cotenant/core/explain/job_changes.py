"""Single changes of a waiting job's own spec, each kind at the mildest amount with which the job would start.

Every kind is one thing that a tenant edits. Amounts (workers, share, CPU) are searched by bisection, because less never
needs more room. What "would start" means is the caller's: see `smallest_change`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cotenant.core.cycle.gallop import first_true
from cotenant.core.model.formatting import counted, format_gpus, format_mib
from cotenant.core.model.objects import WHOLE, GpuRequest, Job, Sharing, TopologyMode

Starts: TypeAlias = Callable[[Job], bool]
"""(the job, changed) → it would start at once."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change, in words that follow "it would start if", and as the fields of the spec that are to be written."""

    words: str
    fields: tuple[tuple[str, str], ...] = ()
    """(path, value as JSON, null: left out); empty for a change that is not the tenant's."""
    job: Job | None = field(default=None, compare=False)
    """The job with this change."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a change may name."""

    classes: tuple[str, ...]
    zones: tuple[str, ...]
    priorities: tuple[int, ...]
    """Priorities that the queue allows and with which the job would pass jobs for which places are kept."""
    workers: int
    """Workers of this kind for which there is room at most."""
    deadlines_s: tuple[int, ...]
    """Times for which GPUs that are kept for others stand idle at least, longest first."""


def changes(job: Job, around: Surroundings, starts: Starts) -> Iterator[Change]:
    """Changes with which it would start, from those that cost the job nothing to those that cost it most."""
    yield from _softer_topology(job, starts)
    yield from _other_class(job, around, starts)
    yield from _other_zone(job, around, starts)
    yield from _wider_sharing(job, starts)
    yield from _declared_runtime(job, around, starts)
    yield from _less_cpu_or_memory(job, starts)
    yield from _ranks_together(job, starts)
    yield from _fewer_workers(job, around, starts)
    yield from _fewer_gpus(job, starts)
    yield from _smaller_share(job, starts)
    yield from _higher_priority(job, around, starts)
    yield from _shorter_runtime(job, around, starts)


def _softer_topology(job: Job, starts: Starts) -> Iterator[Change]:
    topology = job.topology
    if topology is None or topology.mode is not TopologyMode.REQUIRED:
        return
    softer = replace(job, topology=replace(topology, mode=TopologyMode.PREFERRED))
    if starts(softer):
        words = f"its topology {topology.level} were Preferred instead of Required"
        yield Change(words, (("spec.topology.mode", '"Preferred"'),), softer)


def _other_class(job: Job, around: Surroundings, starts: Starts) -> Iterator[Change]:
    if not job.gpu.classes:
        return
    for name in (one for one in around.classes if one not in job.gpu.classes):
        wider = _with_gpu(job, replace(job.gpu, classes=(*job.gpu.classes, name)))
        if starts(wider):
            yield Change(f"it also allowed class {name}", (("spec.gpu.classes", _list(wider.gpu.classes)),), wider)
            return
    anywhere = _with_gpu(job, replace(job.gpu, classes=()))
    if starts(anywhere):
        yield Change("it allowed GPUs of any class", (("spec.gpu.classes", "null"),), anywhere)


def _other_zone(job: Job, around: Surroundings, starts: Starts) -> Iterator[Change]:
    if not job.gpu.zones:
        return
    for name in (one for one in around.zones if one not in job.gpu.zones):
        wider = _with_gpu(job, replace(job.gpu, zones=(*job.gpu.zones, name)))
        if starts(wider):
            yield Change(f"it also allowed zone {name}", (("spec.gpu.zones", _list(wider.gpu.zones)),), wider)
            return
    anywhere = _with_gpu(job, replace(job.gpu, zones=()))
    if starts(anywhere):
        yield Change("it allowed GPUs of any zone", (("spec.gpu.zones", "null"),), anywhere)


def _wider_sharing(job: Job, starts: Starts) -> Iterator[Change]:
    order = (Sharing.NEVER, Sharing.QUEUE, Sharing.ANY)
    if not job.gpu.is_share:
        return
    for wider in order[order.index(job.gpu.sharing) + 1 :]:
        shared = _with_gpu(job, replace(job.gpu, sharing=wider))
        if starts(shared):
            whom = "jobs of its queue" if wider is Sharing.QUEUE else "jobs of all queues"
            words = f"it shared its GPUs with {whom} (sharing: {wider.value})"
            yield Change(words, (("spec.gpu.sharing", f'"{wider.value}"'),), shared)
            return


def _declared_runtime(job: Job, around: Surroundings, starts: Starts) -> Iterator[Change]:
    """A job that says how long it runs at most may use GPUs that are kept for a job which starts later."""
    if job.max_runtime_s is None and job.expected_runtime_s is None:
        yield from _bounded_runtime(job, around.deadlines_s, starts)


def _shorter_runtime(job: Job, around: Surroundings, starts: Starts) -> Iterator[Change]:
    said = job.max_runtime_s or job.expected_runtime_s
    if said is not None:
        yield from _bounded_runtime(job, [seconds for seconds in around.deadlines_s if seconds < said], starts)


def _bounded_runtime(job: Job, deadlines_s: Sequence[int], starts: Starts) -> Iterator[Change]:
    for seconds in deadlines_s:
        expected = job.expected_runtime_s
        too_long = expected is not None and expected > seconds
        bounded = replace(job, max_runtime_s=seconds, expected_runtime_s=seconds if too_long else expected)
        if starts(bounded):
            names = ("spec.expectedRuntime", "spec.maxRuntime") if too_long else ("spec.maxRuntime",)
            words = f"it were sure to end within {seconds} s (maxRuntime)"
            yield Change(words, tuple((name, f'"{seconds}s"') for name in names), bounded)
            return


def _less_cpu_or_memory(job: Job, starts: Starts) -> Iterator[Change]:
    cpu, host = job.cpu_milli, job.memory_mib

    def with_cpu(units: int) -> Job:
        return replace(job, cpu_milli=units * _CPU_STEP)

    def with_memory(units: int) -> Job:
        return replace(job, memory_mib=units * _HOST_STEP)

    if cpu and (most := _largest(with_cpu, _below(cpu, _CPU_STEP), starts)) is not None:
        words = f"a worker asked for at most {format_gpus(most.cpu_milli)} CPU"
        yield Change(words, (("spec.resources.cpu", f'"{most.cpu_milli}m"'),), most)
    elif host and (most := _largest(with_memory, _below(host, _HOST_STEP), starts)) is not None:
        words = f"a worker asked for at most {format_mib(most.memory_mib)} of memory"
        yield Change(words, (("spec.resources.memory", f'"{most.memory_mib}Mi"'),), most)


def _ranks_together(job: Job, starts: Starts) -> Iterator[Change]:
    if job.workers_min == 1 or not job.distinct_gpus or not job.gpu.is_share:
        return
    together = replace(job, distinct_gpus=False)
    if starts(together):
        words = "its ranks may share a GPU (collective: gloo)"
        yield Change(words, (("spec.runtime.collective", '"gloo"'),), together)


def _fewer_workers(job: Job, around: Surroundings, starts: Starts) -> Iterator[Change]:
    elastic = job.workers_max > job.workers_min

    def with_workers(number: int) -> Job:
        return replace(job, workers_min=number, workers_max=job.workers_max if elastic else number)

    most = _largest(with_workers, min(job.workers_min - 1, around.workers), starts, least=1)
    if most is None:
        return
    number = most.workers_min
    words = f"it asked for {'at least ' if elastic else ''}{counted(number, 'worker')}"
    yield Change(words, (("spec.minWorkers" if elastic else "spec.workers", str(number)),), most)


def _fewer_gpus(job: Job, starts: Starts) -> Iterator[Change]:
    """Fewer whole GPUs for each worker; of its only one, a part."""
    if job.gpu.is_share:
        return

    def with_count(number: int) -> Job:
        return _with_gpu(job, replace(job.gpu, count=number))

    def with_part(units: int) -> Job:
        return _with_gpu(job, replace(job.gpu, count=1, memory_milli=units * _MILLI_STEP))

    if (most := _largest(with_count, job.gpu.count - 1, starts, least=1)) is not None:
        words = f"a worker asked for {counted(most.gpu.count, 'GPU')}"
        yield Change(words, (("spec.gpu.count", str(most.gpu.count)),), most)
    elif (part := _largest(with_part, (WHOLE - 1) // _MILLI_STEP, starts, least=1)) is not None:
        share = format_gpus(part.gpu.memory_milli or 0)
        fields = (("spec.gpu.count", "null"), ("spec.gpu.memoryFraction", f'"{share}"'))
        yield Change(f"a worker asked for a share of at most {share} GPU", fields, part)


def _smaller_share(job: Job, starts: Starts) -> Iterator[Change]:
    """Less memory; less compute; less of both in proportion."""
    if not job.gpu.is_share:
        return
    for shrink in (_less_share_memory, _less_share_compute, _less_of_both):
        for change in shrink(job, starts):
            yield change
            return


def _less_share_memory(job: Job, starts: Starts) -> Iterator[Change]:
    gpu = job.gpu
    for step_mib, step_milli in ((_MIB_STEP, _MILLI_STEP), (1, 1)):
        if gpu.memory_mib is not None:
            most = _largest(_share_of(job, memory_mib=step_mib), _below(gpu.memory_mib, step_mib), starts, least=1)
            if most is not None:
                size = most.gpu.memory_mib or 0
                yield Change(f"its share were at most {format_mib(size)}", (_mib_field(size),), most)
                return
        elif gpu.memory_milli is not None:
            most = _largest(
                _share_of(job, memory_milli=step_milli), _below(gpu.memory_milli, step_milli), starts, least=1
            )
            if most is not None:
                share = format_gpus(most.gpu.memory_milli or 0)
                yield Change(f"its share were at most {share} GPU", (("spec.gpu.memoryFraction", f'"{share}"'),), most)
                return


def _less_share_compute(job: Job, starts: Starts) -> Iterator[Change]:
    compute = job.gpu.compute_milli
    if compute is None:
        return
    for step in (_MILLI_STEP, 1):
        most = _largest(_share_of(job, compute_milli=step), _below(compute, step), starts, least=1)
        if most is not None:
            share = format_gpus(most.gpu.compute_milli or 0)
            words = f"its share of the compute were at most {share} GPU"
            yield Change(words, (("spec.gpu.computeFraction", f'"{share}"'),), most)
            return


def _less_of_both(job: Job, starts: Starts) -> Iterator[Change]:
    gpu = job.gpu
    if gpu.compute_milli is None or (gpu.memory_mib is None and gpu.memory_milli is None):
        return

    def scaled(percent: int) -> Job:
        return _with_gpu(
            job,
            replace(
                gpu,
                memory_mib=None if gpu.memory_mib is None else max(1, gpu.memory_mib * percent // 100),
                memory_milli=None if gpu.memory_milli is None else max(1, gpu.memory_milli * percent // 100),
                compute_milli=max(1, (gpu.compute_milli or 0) * percent // 100),
            ),
        )

    most = _largest(scaled, 99, starts, least=1)
    if most is None:
        return
    compute = format_gpus(most.gpu.compute_milli or 0)
    memory = most.gpu.memory_mib
    size = format_mib(memory) if memory is not None else f"{format_gpus(most.gpu.memory_milli or 0)} GPU"
    of_memory = (
        _mib_field(memory)
        if memory is not None
        else ("spec.gpu.memoryFraction", f'"{format_gpus(most.gpu.memory_milli or 0)}"')
    )
    words = f"its share were at most {size} with {compute} of the compute"
    yield Change(words, (of_memory, ("spec.gpu.computeFraction", f'"{compute}"')), most)


def _higher_priority(job: Job, around: Surroundings, starts: Starts) -> Iterator[Change]:
    for priority in around.priorities:
        first = replace(job, priority=priority, priority_class="")
        if starts(first):
            fields: tuple[tuple[str, str], ...] = (("spec.priority", str(priority)),)
            if job.priority_class:
                fields = (*fields, ("spec.priorityClassName", "null"))
            yield Change(f"its priority were {priority}", fields, first)
            return


_MIB_STEP = 256
_MILLI_STEP = 10
_CPU_STEP = 100
_HOST_STEP = 64


def _largest(changed: Callable[[int], Job], most: int, starts: Starts, *, least: int = 0) -> Job | None:
    """The job with the largest amount from `least` to `most` with which it starts; None where even the least is too
    much."""
    if most < least or not starts(changed(least)):
        return None
    if starts(changed(most)):
        return changed(most)
    return changed(first_true(least, most, lambda amount: not starts(changed(amount))) - 1)


def _below(amount: int, step: int) -> int:
    """Whole steps that are less than the amount."""
    return (amount - 1) // step


def _share_of(job: Job, **steps: int) -> Callable[[int], Job]:
    """The job with one dimension of its share at so many steps."""
    ((dimension, step),) = steps.items()

    def changed(units: int) -> Job:
        amounts: dict[str, int | None] = {dimension: units * step}
        return _with_gpu(job, replace(job.gpu, **amounts))  # type: ignore[arg-type]

    return changed


def _with_gpu(job: Job, gpu: GpuRequest) -> Job:
    return replace(job, gpu=gpu)


def _mib_field(mib: int) -> tuple[str, str]:
    return "spec.gpu.memory", f'"{mib}Mi"'


def _list(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
