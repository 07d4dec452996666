"""Smaller amounts in a job's spec, each the largest with which it would start: CPU and memory, workers, GPUs, a share.

Searched by bisection, because less never needs more room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from cotenant.core.cycle.gallop import first_true
from cotenant.core.explain.spec_change import SpecChange, Starts, Surroundings, with_gpu
from cotenant.core.model.formatting import counted, format_gpus, format_mib
from cotenant.core.model.objects import WHOLE, Job

_MIB_STEP = 256
_MILLI_STEP = 10
_CPU_STEP = 100
_HOST_STEP = 64


def less_cpu_or_memory(job: Job, starts: Starts) -> Iterator[SpecChange]:
    cpu, host = job.cpu_milli, job.memory_mib

    def with_cpu(units: int) -> Job:
        return replace(job, cpu_milli=units * _CPU_STEP)

    def with_memory(units: int) -> Job:
        return replace(job, memory_mib=units * _HOST_STEP)

    if cpu and (most := _largest(with_cpu, _below(cpu, _CPU_STEP), starts)) is not None:
        words = f"a worker asked for at most {format_gpus(most.cpu_milli)} CPU"
        yield SpecChange(words, (("spec.resources.cpu", f'"{most.cpu_milli}m"'),), most)
    elif host and (most := _largest(with_memory, _below(host, _HOST_STEP), starts)) is not None:
        words = f"a worker asked for at most {format_mib(most.memory_mib)} of memory"
        yield SpecChange(words, (("spec.resources.memory", f'"{most.memory_mib}Mi"'),), most)


def fewer_workers(job: Job, around: Surroundings, starts: Starts) -> Iterator[SpecChange]:
    elastic = job.workers_max > job.workers_min

    def with_workers(number: int) -> Job:
        return replace(job, workers_min=number, workers_max=job.workers_max if elastic else number)

    most = _largest(with_workers, min(job.workers_min - 1, around.workers), starts, least=1)
    if most is None:
        return
    number = most.workers_min
    words = f"it asked for {'at least ' if elastic else ''}{counted(number, 'worker')}"
    yield SpecChange(words, (("spec.minWorkers" if elastic else "spec.workers", str(number)),), most)


def fewer_gpus(job: Job, starts: Starts) -> Iterator[SpecChange]:
    """Fewer GPUs for each worker; of its only whole one, a part."""

    def with_count(number: int) -> Job:
        return with_gpu(job, replace(job.gpu, count=number))

    def with_part(units: int) -> Job:
        return with_gpu(job, replace(job.gpu, count=1, memory_milli=units * _MILLI_STEP))

    if (most := _largest(with_count, job.gpu.count - 1, starts, least=1)) is not None:
        gpus = counted(most.gpu.count, "GPU")
        words = f"a worker asked for its share of {gpus}" if job.gpu.is_share else f"a worker asked for {gpus}"
        yield SpecChange(words, (("spec.gpu.count", str(most.gpu.count)),), most)
    elif (
        not job.gpu.is_share and (part := _largest(with_part, (WHOLE - 1) // _MILLI_STEP, starts, least=1)) is not None
    ):
        share = format_gpus(part.gpu.memory_milli or 0)
        fields = (("spec.gpu.count", "null"), ("spec.gpu.memoryFraction", f'"{share}"'))
        yield SpecChange(f"a worker asked for a share of at most {share} GPU", fields, part)


def smaller_share(job: Job, starts: Starts) -> Iterator[SpecChange]:
    """Less memory; less compute; less of both in proportion."""
    if not job.gpu.is_share:
        return
    for shrink in (_less_share_memory, _less_share_compute, _less_of_both):
        for change in shrink(job, starts):
            yield change
            return


def _less_share_memory(job: Job, starts: Starts) -> Iterator[SpecChange]:
    gpu = job.gpu
    for step_mib, step_milli in ((_MIB_STEP, _MILLI_STEP), (1, 1)):
        if gpu.memory_mib is not None:
            most = _largest(_share_of(job, memory_mib=step_mib), _below(gpu.memory_mib, step_mib), starts, least=1)
            if most is not None:
                size = most.gpu.memory_mib or 0
                yield SpecChange(f"its share were at most {format_mib(size)}", (_mib_field(size),), most)
                return
        elif gpu.memory_milli is not None:
            most = _largest(
                _share_of(job, memory_milli=step_milli), _below(gpu.memory_milli, step_milli), starts, least=1
            )
            if most is not None:
                share = format_gpus(most.gpu.memory_milli or 0)
                yield SpecChange(
                    f"its share were at most {share} GPU", (("spec.gpu.memoryFraction", f'"{share}"'),), most
                )
                return


def _less_share_compute(job: Job, starts: Starts) -> Iterator[SpecChange]:
    compute = job.gpu.compute_milli
    if compute is None:
        return
    for step in (_MILLI_STEP, 1):
        most = _largest(_share_of(job, compute_milli=step), _below(compute, step), starts, least=1)
        if most is not None:
            share = format_gpus(most.gpu.compute_milli or 0)
            words = f"its share of the compute were at most {share} GPU"
            yield SpecChange(words, (("spec.gpu.computeFraction", f'"{share}"'),), most)
            return


def _less_of_both(job: Job, starts: Starts) -> Iterator[SpecChange]:
    gpu = job.gpu
    if gpu.compute_milli is None or (gpu.memory_mib is None and gpu.memory_milli is None):
        return

    def scaled(percent: int) -> Job:
        return with_gpu(
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
    yield SpecChange(words, (of_memory, ("spec.gpu.computeFraction", f'"{compute}"')), most)


def _largest(changed: Callable[[int], Job], most: int, starts: Starts, *, least: int = 0) -> Job | None:
    """The job with the largest amount from `least` to `most` with which it starts; None where even the least is too
    much."""
    if most < least or not starts(changed(least)):
        return None
    if most == least or starts(changed(most)):
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
        return with_gpu(job, replace(job.gpu, **amounts))  # type: ignore[arg-type]

    return changed


def _mib_field(mib: int) -> tuple[str, str]:
    return "spec.gpu.memory", f'"{mib}Mi"'
