"""Smaller amounts in a job's spec, each the largest with which it would start: of its node, workers, GPUs, a share.

Searched by bisection, because less never needs more room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

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


@dataclass(frozen=True, slots=True)
class _Dimension:
    """One of the amounts that a worker asks for, in its smallest unit: milli-CPU, MiB, thousandths of a GPU."""

    name: str
    """In `Job` or `GpuRequest`."""
    field: str
    """In the spec."""
    step: int
    """Multiples of this are proposed if one helps."""
    shown: Callable[[int], str]
    written: Callable[[int], str]


def _shown_share(milli: int) -> str:
    return f"{format_gpus(milli)} GPU"


_OF_HOST: Final = (
    _Dimension("cpu_milli", "cpu", 100, format_cpu, "{}m".format),
    _Dimension("memory_mib", "memory", 64, format_host_memory, "{}Mi".format),
    _Dimension("scratch_mib", "scratch", 64, format_scratch, "{}Mi".format),
)
_FRACTION: Final = _Dimension("memory_milli", "memoryFraction", 10, _shown_share, format_gpus)
_COMPUTE: Final = _Dimension("compute_milli", "computeFraction", 10, _shown_share, format_gpus)
_OF_SHARE: Final = (_Dimension("memory_mib", "memory", 256, format_mib, "{}Mi".format), _FRACTION, _COMPUTE)


def less_on_host(job: Job, starts: Starts) -> Iterator[SpecChange]:
    """Less CPU, else memory, else scratch space: of rank 0, down to what every rank has, and of every rank.

    Memory is proposed without what the operator adds to it.
    """
    added = (0, job.added_memory_mib, 0)
    every = (job.cpu_milli, job.memory_mib, job.scratch_mib)
    chief = (job.chief_cpu, job.chief_memory, job.chief_scratch)
    for who, path, prefix, amounts, least in (
        ("its chief", "spec.chief.resources", "chief_", chief, every),
        ("a worker", "spec.resources", "", every, added),
    ):
        for one, amount, floor, more in zip(_OF_HOST, amounts, least, added, strict=True):
            changed = partial(_with_host_amount, job, prefix + one.name, more)
            if (most := _largest_below(amount - more, one.step, changed, starts, least=floor - more)) is not None:
                words = f"{who} asked for at most {one.shown(most)}"
                yield SpecChange.of(words, changed(most), (f"{path}.{one.field}", one.written(most)))
                break


def _with_host_amount(job: Job, name: str, added: int, amount: int) -> Job:
    amounts: dict[str, Any] = {name: amount + added}
    return replace(job, **amounts)


def fewer_workers(job: Job, around: Surroundings, starts: Starts) -> Iterator[SpecChange]:
    elastic = job.workers_max > job.workers_min

    def with_workers(number: int) -> Job:
        return replace(job, workers_min=number, workers_max=job.workers_max if elastic else number)

    if (most := _largest(with_workers, min(job.workers_min - 1, around.workers), starts)) is not None:
        words = f"it asked for {'at least ' if elastic else ''}{counted(most, 'worker')}"
        yield SpecChange.of(words, with_workers(most), ("spec.minWorkers" if elastic else "spec.workers", most))


def fewer_gpus(job: Job, starts: Starts) -> Iterator[SpecChange]:
    """Fewer GPUs for each worker; of its only whole one, a part."""

    def with_count(number: int) -> Job:
        return with_gpu(job, count=number)

    def with_part(milli: int) -> Job:
        return with_gpu(job, count=1, memory_milli=milli)

    if (most := _largest(with_count, job.gpu.count - 1, starts)) is not None:
        gpus = counted(most, "GPU")
        words = f"a worker asked for its share of {gpus}" if job.gpu.is_share else f"a worker asked for {gpus}"
        yield SpecChange.of(words, with_count(most), ("spec.gpu.count", most))
    elif not job.gpu.is_share and (part := _largest_below(WHOLE, _FRACTION.step, with_part, starts)) is not None:
        words = f"a worker asked for a share of at most {_FRACTION.shown(part)}"
        yield SpecChange.of(words, with_part(part), ("spec.gpu.count", None), _share_field(_FRACTION, part))


def smaller_share(job: Job, starts: Starts) -> Iterator[SpecChange]:
    """Less memory; less compute; less of both in proportion."""
    asked = [one for one in _OF_SHARE if getattr(job.gpu, one.name) is not None]
    for one in asked:
        changed = partial(_with_share, job, one.name)
        if (most := _largest_below(getattr(job.gpu, one.name), one.step, changed, starts)) is not None:
            words = f"its share{' of the compute' if one is _COMPUTE else ''} were at most {one.shown(most)}"
            yield SpecChange.of(words, changed(most), _share_field(one, most))
            return
    if len(asked) > 1:
        yield from _less_of_both(job, asked[0], starts)


def _with_share(job: Job, name: str, amount: int) -> Job:
    return with_gpu(job, **{name: amount})


def _less_of_both(job: Job, memory: _Dimension, starts: Starts) -> Iterator[SpecChange]:
    both = {one.name: getattr(job.gpu, one.name) for one in (memory, _COMPUTE)}

    def scaled(percent: int) -> Job:
        return with_gpu(job, **{name: max(1, amount * percent // 100) for name, amount in both.items()})

    if (most := _largest(scaled, 99, starts)) is not None:
        smaller = scaled(most)
        size, compute = getattr(smaller.gpu, memory.name), smaller.gpu.compute_milli or 0
        words = f"its share were at most {memory.shown(size)} with {format_gpus(compute)} of the compute"
        yield SpecChange.of(words, smaller, _share_field(memory, size), _share_field(_COMPUTE, compute))


def _share_field(one: _Dimension, amount: int) -> tuple[str, str]:
    return f"spec.gpu.{one.field}", one.written(amount)


def _largest_below(
    amount: int, step: int, changed: Callable[[int], Job], starts: Starts, *, least: int = 0
) -> int | None:
    """The largest multiple of the step below the amount with which the job starts, else the largest number. None if it
    does not start even with `least`, or 1.
    """
    least = max(1, least)
    if least >= amount or not starts(changed(least)):
        return None
    first = -(-least // step)
    steps = _largest(lambda number: changed(number * step), (amount - 1) // step, starts, least=first)
    return _largest(changed, min(amount, first * step) - 1, starts, least=least) if steps is None else steps * step


def _largest(changed: Callable[[int], Job], most: int, starts: Starts, *, least: int = 1) -> int | None:
    """The largest number from `least` to `most` with which the job starts; None if it does not start even with the
    least."""
    if most < least or not starts(changed(least)):
        return None
    if most == least or starts(changed(most)):
        return most
    return first_true(least, most, lambda number: not starts(changed(number))) - 1
