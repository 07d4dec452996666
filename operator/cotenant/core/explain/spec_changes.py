"""The catalogue of changes of a waiting job's own spec, those that cost the job least first.

Each kind of change is one field that a tenant edits, from the mildest value to the strongest. The catalogue judges
nothing: `scheduling/smallest_change` tries the changes, and tells the tenant the first one with which the job starts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

from cotenant.core.model.formatting import (
    counted,
    format_cpu,
    format_duration,
    format_gpus,
    format_host_memory,
    format_mib,
    format_scratch,
)
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import WHOLE, Job, Sharing, TopologyMode
from cotenant.core.model.plan import Verdict

Value: TypeAlias = str | int | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One change, in words that follow "it would start if", and as the fields of the spec that are to be written."""

    words: str
    job: Job = field(compare=False)
    """The job with this change."""
    fields: tuple[tuple[str, Value], ...] = ()
    """(path, value, None: left out); empty for a change that is not the tenant's."""
    ends_by: float | None = field(default=None, compare=False)
    """When the job will have ended for sure, if the change limits its run time. The words name the time until then."""

    def added_to(self, verdict: Verdict) -> Verdict:
        fields = tuple((path, json.dumps(value)) for path, value in self.fields)
        return replace(verdict, would_start_if=self.words, change=fields)


@dataclass(frozen=True, slots=True)
class AmountRange:
    """One field at each amount from `least` to `most`. Less never needs more room, so the amounts can be bisected."""

    change: Callable[[int], SpecChange]
    most: int
    least: int = 1
    step: int = 1
    """Multiples of this are proposed if one helps."""
    bound: SpecChange | None = None
    """A change that takes off at least as much as each amount: if it does not help, none of them does."""


Kind: TypeAlias = Iterable[SpecChange] | AmountRange
"""The changes of one kind, the mildest first; or one field at many amounts."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Names and amounts that a change may propose."""

    classes: tuple[str, ...]
    """Of devices that run the same programs."""
    zones: tuple[str, ...]
    priorities: tuple[int, ...]
    """Priorities that the queue allows and with which the job would pass jobs for which places are reserved."""
    workers: int
    """The most workers of this kind for which there could be room."""
    ends: tuple[tuple[float, int], ...]
    """(when GPUs that are reserved for other jobs are taken, seconds until then as they are told), latest first."""
    any_class: bool = True
    """True if a request that names no class gets devices that run the same programs."""


def catalogue(job: Job, around: Surroundings) -> Iterator[Kind]:
    """All changes of the job, kind by kind."""
    sure_ends = (bounded_runtime(job, at, seconds) for at, seconds in around.ends)
    is_declared = bool(job.max_runtime_s or job.expected_runtime_s)
    yield _softer_topology(job)
    yield _softer_spread(job)
    yield _more_names(job, "classes", "class", around.classes, takes_any=around.any_class)
    yield _more_names(job, "zones", "zone", around.zones, takes_any=True)
    yield _wider_sharing(job)
    yield sure_ends if not is_declared else ()  # with a run time it may use GPUs reserved for a job that starts later
    yield from _less_of_its_node(job)
    yield _ranks_together(job)
    yield _fewer_workers(job, around)
    yield from _fewer_gpus(job)
    yield from _smaller_share(job)
    yield _other_priorities(job, around)
    yield sure_ends if is_declared else ()


def _softer_topology(job: Job) -> Iterator[SpecChange]:
    topology = job.topology
    if topology is not None and topology.mode is TopologyMode.REQUIRED:
        softer = replace(job, topology=replace(topology, mode=TopologyMode.PREFERRED))
        words = f"its topology {topology.level} were Preferred instead of Required"
        yield SpecChange(words, softer, (("spec.topology.mode", "Preferred"),))


def _softer_spread(job: Job) -> Iterator[SpecChange]:
    spread = job.spread
    if spread is not None and spread.mode is TopologyMode.REQUIRED:
        softer = replace(job, spread=replace(spread, mode=TopologyMode.PREFERRED, most=1))
        words = f"its spread over {spread.level}s were Preferred instead of Required"
        bound = [("spec.spread.maxWorkers", None)] if spread.most > 1 else []
        yield SpecChange(words, softer, (("spec.spread.mode", "Preferred"), *bound))


def _more_names(job: Job, name: str, what: str, others: Iterable[str], *, takes_any: bool) -> Iterator[SpecChange]:
    """One more class or zone, then any. `name`: of the field in `GpuRequest`, and in `spec.gpu`."""
    own, path = getattr(job.gpu, name), f"spec.gpu.{name}"
    if not own:
        return
    for other in (one for one in others if one not in own):
        wider = _with_gpu(job, **{name: (*own, other)})
        yield SpecChange(f"it also allowed {what} {other}", wider, ((path, (*own, other)),))
    if takes_any:
        yield SpecChange(f"it allowed GPUs of any {what}", _with_gpu(job, **{name: ()}), ((path, None),))


def _wider_sharing(job: Job) -> Iterator[SpecChange]:
    order = (Sharing.NEVER, Sharing.QUEUE, Sharing.ANY)
    for wider in order[order.index(job.gpu.sharing) + 1 :] if job.gpu.is_share else ():
        whom = "jobs of its queue" if wider is Sharing.QUEUE else "jobs of all queues"
        words = f"it shared its GPUs with {whom} (sharing: {wider.value})"
        yield SpecChange(words, _with_gpu(job, sharing=wider), (("spec.gpu.sharing", wider.value),))


def bounded_runtime(job: Job, ends_by: float, seconds: int) -> SpecChange:
    """The change that limits the run time to these seconds, so that the job ends by that instant."""
    expected = job.expected_runtime_s
    too_long = expected is not None and expected > seconds
    bounded = replace(job, max_runtime_s=seconds, expected_runtime_s=seconds if too_long else expected)
    names = ("spec.expectedRuntime", "spec.maxRuntime") if too_long else ("spec.maxRuntime",)
    duration = format_duration(seconds)
    words = f"it were sure to end within {duration} (maxRuntime)"
    return SpecChange(words, bounded, tuple((name, duration) for name in names), ends_by)


def told_seconds(at: float, moment: Moment) -> int:
    """Seconds from the moment until the instant, rounded down. The moment notes until when they stay the same.

    They are rounded so that the advice does not change every second: below a minute in steps of 1 s, below ten minutes
    of 10 s, then of a minute, doubled while a step is at most an eighth of the time.
    """
    left = max(0, int(at - moment.at))
    unit = 60 << max(0, (left // 480).bit_length() - 1) if left >= 600 else 10 if left >= 60 else 1
    rounded = left - left % unit
    moment.is_past(at - rounded)
    return rounded


def _ranks_together(job: Job) -> Iterator[SpecChange]:
    if job.workers_min > 1 and job.distinct_gpus and job.gpu.is_share:
        words = "its ranks may share a GPU (collective: gloo)"
        yield SpecChange(words, replace(job, distinct_gpus=False), (("spec.runtime.collective", "gloo"),))


def _other_priorities(job: Job, around: Surroundings) -> Iterator[SpecChange]:
    no_class = [("spec.priorityClassName", None)] if job.priority_class else []
    for priority in around.priorities:
        first = replace(job, priority=priority, priority_class="")
        yield SpecChange(f"its priority were {priority}", first, (("spec.priority", priority), *no_class))


@dataclass(frozen=True, slots=True)
class _Amount:
    """What a worker asks for, in its smallest unit: milli-CPU, MiB, thousandths of a GPU."""

    name: str
    """In `Job` or `GpuRequest`."""
    field: str
    """In the spec."""
    step: int
    shown: Callable[[int], str]
    written: Callable[[int], str]


def _shown_share(milli: int) -> str:
    return f"{format_gpus(milli)} GPU"


_OF_NODE: Final = (
    _Amount("cpu_milli", "cpu", 100, format_cpu, "{}m".format),
    _Amount("memory_mib", "memory", 64, format_host_memory, "{}Mi".format),
    _Amount("scratch_mib", "scratch", 64, format_scratch, "{}Mi".format),
)
_FRACTION: Final = _Amount("memory_milli", "memoryFraction", 10, _shown_share, format_gpus)
_COMPUTE: Final = _Amount("compute_milli", "computeFraction", 10, _shown_share, format_gpus)
_OF_SHARE: Final = (_Amount("memory_mib", "memory", 256, format_mib, "{}Mi".format), _FRACTION, _COMPUTE)


def _less_of_its_node(job: Job) -> Iterator[AmountRange]:
    """Less CPU, memory or scratch space: of rank 0, down to what every rank has, then of every rank.

    Memory is proposed without what the operator adds to it.
    """
    added = (0, job.added_memory_mib, 0)
    every = (job.cpu_milli, job.memory_mib, job.scratch_mib)
    nothing: dict[str, Any] = {prefix + one.name: 0 for prefix in ("", "chief_") for one in _OF_NODE}
    bound = SpecChange("it asked for nothing of its node but GPUs", replace(job, **nothing))
    for whose, asked, least in (
        (("its chief", "spec.chief.resources", "chief_"), job.chief_amounts, every),
        (("a worker", "spec.resources", ""), every, added),
    ):
        for one, amount, floor, more in zip(_OF_NODE, asked, least, added, strict=True):
            change = partial(_with_node_amount, job, whose, one, more)
            yield AmountRange(change, amount - more - 1, max(1, floor - more), one.step, bound)


def _with_node_amount(job: Job, whose: tuple[str, str, str], one: _Amount, added: int, amount: int) -> SpecChange:
    """`whose`: (in words, path in the spec, prefix of the names in `Job`)."""
    who, path, prefix = whose
    amounts: dict[str, Any] = {prefix + one.name: amount + added}
    words = f"{who} asked for at most {one.shown(amount)}"
    return SpecChange(words, replace(job, **amounts), ((f"{path}.{one.field}", one.written(amount)),))


def _fewer_workers(job: Job, around: Surroundings) -> AmountRange:
    elastic = job.workers_max > job.workers_min

    def change(number: int) -> SpecChange:
        fewer = replace(job, workers_min=number, workers_max=job.workers_max if elastic else number)
        words = f"it asked for {'at least ' if elastic else ''}{counted(number, 'worker')}"
        return SpecChange(words, fewer, (("spec.minWorkers" if elastic else "spec.workers", number),))

    return AmountRange(change, min(job.workers_min - 1, around.workers))


def _fewer_gpus(job: Job) -> Iterator[AmountRange]:
    """Fewer GPUs for each worker; a part of the only one, if it asks for whole GPUs."""

    def of_count(number: int) -> SpecChange:
        gpus = counted(number, "GPU")
        words = f"a worker asked for its share of {gpus}" if job.gpu.is_share else f"a worker asked for {gpus}"
        return SpecChange(words, _with_gpu(job, count=number), (("spec.gpu.count", number),))

    def of_part(milli: int) -> SpecChange:
        words = f"a worker asked for a share of at most {_FRACTION.shown(milli)}"
        part = _with_gpu(job, count=1, memory_milli=milli)
        return SpecChange(words, part, (("spec.gpu.count", None), _share_field(_FRACTION, milli)))

    yield AmountRange(of_count, job.gpu.count - 1)
    if not job.gpu.is_share:
        yield AmountRange(of_part, WHOLE - 1, step=_FRACTION.step)


def _smaller_share(job: Job) -> Iterator[AmountRange]:
    """Less memory; less compute; less of both in proportion."""
    asked = {one: amount for one in _OF_SHARE if (amount := getattr(job.gpu, one.name)) is not None}
    for one, amount in asked.items():
        yield AmountRange(partial(_with_share, job, one), amount - 1, step=one.step)
    if len(asked) > 1:
        yield AmountRange(partial(_with_both, job, asked), 99)


def _with_share(job: Job, one: _Amount, amount: int) -> SpecChange:
    words = f"its share{' of the compute' if one is _COMPUTE else ''} were at most {one.shown(amount)}"
    return SpecChange(words, _with_gpu(job, **{one.name: amount}), (_share_field(one, amount),))


def _with_both(job: Job, asked: Mapping[_Amount, int], percent: int) -> SpecChange:
    (memory, size), (_, compute) = ((one, max(1, amount * percent // 100)) for one, amount in asked.items())
    words = f"its share were at most {memory.shown(size)} with {format_gpus(compute)} of the compute"
    smaller = _with_gpu(job, **{memory.name: size, _COMPUTE.name: compute})
    return SpecChange(words, smaller, (_share_field(memory, size), _share_field(_COMPUTE, compute)))


def _share_field(one: _Amount, amount: int) -> tuple[str, str]:
    return f"spec.gpu.{one.field}", one.written(amount)


def _with_gpu(job: Job, **changes: Any) -> Job:
    """The job with these fields of its `GpuRequest` changed."""
    return replace(job, gpu=replace(job.gpu, **changes))
