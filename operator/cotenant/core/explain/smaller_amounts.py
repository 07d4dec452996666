"""Smaller amounts in a job's spec, each the largest with which it would start: of its node, workers, GPUs, a share.

Searched by bisection, because less never needs more room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cotenant.core.cycle.gallop import first_true
from cotenant.core.explain.spec_change import SpecChange, Starts, Surroundings, with_gpu
from cotenant.core.model.formatting import (
    counted,
    format_cpu,
    format_gpus,
    format_host_memory,
    format_mib,
    format_scratch,
)
from cotenant.core.model.objects import WHOLE, Job

_MILLI_STEP = 10
_CPU_STEP = 100
_HOST_STEP = 64


def less_on_host(job: Job, starts: Starts) -> Iterator[SpecChange]:
    """Less CPU, else memory, else scratch space: of rank 0, down to what every rank has, and of every rank."""
    chief = (
        ("chief_cpu_milli", job.chief_cpu, job.cpu_milli),
        ("chief_memory_mib", job.chief_memory, job.memory_mib),
        ("chief_scratch_mib", job.chief_scratch, job.scratch_mib),
    )
    every = ("cpu_milli", job.cpu_milli, 0), ("memory_mib", job.memory_mib, 0), ("scratch_mib", job.scratch_mib, 0)
    whose = (chief, "its chief", "spec.chief.resources"), (every, "a worker", "spec.resources")
    changes = (_less_on_host(job, amounts, starts, who=who, path=path) for amounts, who, path in whose)
    yield from (change for change in changes if change is not None)


def _less_on_host(
    job: Job, amounts: Sequence[tuple[str, int, int]], starts: Starts, *, who: str, path: str
) -> SpecChange | None:
    """`amounts`: (name in `Job`, what it is, the least that may be proposed), of CPU, memory and scratch space.

    Memory is proposed without what the operator adds to it.
    """
    kinds = (
        ("cpu", _CPU_STEP, "m", format_cpu, 0),
        ("memory", _HOST_STEP, "Mi", format_host_memory, job.added_memory_mib),
        ("scratch", _HOST_STEP, "Mi", format_scratch, 0),
    )
    for (name, whole, least), (field, step, unit, shown, added) in zip(amounts, kinds, strict=True):
        changed = partial(_with_amount, job, name, step, added)
        most = _largest(changed, _below(whole - added, step), starts, least=max(1, -(-(least - added) // step)))
        if most is not None:
            amount = getattr(most, name) - added
            written = ((f"{path}.{field}", f'"{amount}{unit}"'),)
            return SpecChange(f"{who} asked for at most {shown(amount)}", written, most)
    return None


def _with_amount(job: Job, name: str, step: int, added: int, units: int) -> Job:
    """The job with this amount at so many steps, and what is added to it."""
    amounts: dict[str, Any] = {name: units * step + added}
    return replace(job, **amounts)


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
    if job.gpu.is_share:
        shrinks = (_less_of(job, one, starts) for one in _DIMENSIONS)
        change = next((one for one in shrinks if one is not None), None) or _less_of_both(job, starts)
        if change is not None:
            yield change


@dataclass(frozen=True, slots=True)
class _Dimension:
    """One of the amounts that a share is given in."""

    name: str
    """Of the amount in a `GpuRequest`."""
    step: int
    """Multiples of this are tried first."""
    path: str
    of_what: str = ""

    def shown(self, amount: int) -> str:
        return format_mib(amount) if self.name == "memory_mib" else f"{format_gpus(amount)} GPU"

    def written(self, amount: int) -> tuple[str, str]:
        return self.path, f'"{amount}Mi"' if self.name == "memory_mib" else f'"{format_gpus(amount)}"'


_COMPUTE = _Dimension("compute_milli", 10, "spec.gpu.computeFraction", " of the compute")
_DIMENSIONS = (
    _Dimension("memory_mib", 256, "spec.gpu.memory"),
    _Dimension("memory_milli", 10, "spec.gpu.memoryFraction"),
    _COMPUTE,
)


def _less_of(job: Job, dimension: _Dimension, starts: Starts) -> SpecChange | None:
    before = getattr(job.gpu, dimension.name)
    for step in () if before is None else (dimension.step, 1):
        changed = partial(_with_share, job, dimension.name, step)
        most = _largest(changed, _below(before, step), starts, least=1)
        if most is not None:
            amount = getattr(most.gpu, dimension.name)
            words = f"its share{dimension.of_what} were at most {dimension.shown(amount)}"
            return SpecChange(words, (dimension.written(amount),), most)
    return None


def _with_share(job: Job, name: str, step: int, units: int) -> Job:
    """The job with this amount of its share at so many steps."""
    amounts: dict[str, int] = {name: units * step}
    return with_gpu(job, replace(job.gpu, **amounts))  # type: ignore[arg-type]


def _less_of_both(job: Job, starts: Starts) -> SpecChange | None:
    gpu = job.gpu
    memory = next((one for one in _DIMENSIONS[:2] if getattr(gpu, one.name) is not None), None)
    if gpu.compute_milli is None or memory is None:
        return None
    both = {one.name: getattr(gpu, one.name) for one in (memory, _COMPUTE)}

    def scaled(percent: int) -> Job:
        amounts = {name: max(1, amount * percent // 100) for name, amount in both.items()}
        return with_gpu(job, replace(gpu, **amounts))

    most = _largest(scaled, 99, starts, least=1)
    if most is None:
        return None
    size, compute = getattr(most.gpu, memory.name), most.gpu.compute_milli or 0
    words = f"its share were at most {memory.shown(size)} with {format_gpus(compute)} of the compute"
    return SpecChange(words, (memory.written(size), _COMPUTE.written(compute)), most)


def _largest(changed: Callable[[int], Job], most: int, starts: Starts, *, least: int) -> Job | None:
    """The job with the largest amount from `least` to `most` with which it starts; None if it does not start even with
    the least."""
    if most < least or not starts(changed(least)):
        return None
    if most == least or starts(changed(most)):
        return changed(most)
    return changed(first_true(least, most, lambda amount: not starts(changed(amount))) - 1)


def _below(amount: int, step: int) -> int:
    """Whole steps that are less than the amount."""
    return (amount - 1) // step
