"""Whether a job uses little of what it holds, why, one thing to try, and its greatest possible gain.

NVML shows the part of the time in which any kernel ran, and the memory of the job's processes. So the cause is the most
likely one, not proved, and a gain is an upper bound: a running kernel may still leave most of a GPU idle. A finding
stays until it is clearly refuted: its lower bounds differ from its upper ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cotenant.api.resources import trainingjob_status
from cotenant.api.scalars.quantities import show_cpu
from cotenant.core.model.formatting import counted
from cotenant.decision_log.efficiency import GIB, gib, needed_mib
from cotenant.decision_log.measured_use import MeasuredUse
from cotenant.names import ENOUGH_SAMPLES


class LowUse(StrEnum):
    """What is left unused; the most important first."""

    GPU_IDLE = trainingjob_status.GPU_IDLE
    """Nothing computes, and no step is made."""
    LOADER_BOUND = "LoaderBound"
    """Steps are made, and between them the GPUs are idle: they wait for data."""
    SMALL_BATCH = "SmallBatch"
    """Steps consist of short kernels, and there is memory for larger ones."""
    MEMORY_UNUSED = "MemoryUnused"
    """Most of the memory that it was given is never used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What is known about the job besides the samples."""

    gpus: int
    """GPUs on which it holds something: whole ones and shares."""
    is_share: bool
    cpu_milli: int
    """CPU of each worker."""
    makes_steps: bool
    """True if its step has moved within the window."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Percent at which a finding begins, and at which it ends."""

    enter: int
    leave: int

    def __call__(self, held: bool) -> int:
        return self.leave if held else self.enter


NO_KERNEL: Final = Bound(90, 75)
"""Least part of samples without any kernel, for a job that computes nothing."""
PAUSES: Final = Bound(30, 20)
"""Least part of samples without any kernel, for a job that waits for data."""
LOADER_BUSY: Final = Bound(50, 65)
"""Greatest part of time with a kernel."""
BATCH_BUSY: Final = Bound(40, 55)
ROOM: Final = Bound(50, 60)
"""Greatest part of the memory that is used, if a larger batch has room."""
NEEDED: Final = Bound(60, 75)
"""Greatest part of the held memory that would be enough."""


def judged(use: MeasuredUse, holding: Holding, held: LowUse | None) -> LowUse | None:
    """The finding about this use. `held` is the current finding, which stays unless it is clearly refuted."""
    if held is not None and (use.samples < ENOUGH_SAMPLES or _holds(held, use, holding, held=True)):
        return held
    if use.samples < ENOUGH_SAMPLES:
        return None
    return next((kind for kind in LowUse if _holds(kind, use, holding, held=False)), None)


def _holds(kind: LowUse, use: MeasuredUse, holding: Holding, *, held: bool) -> bool:
    if kind is LowUse.MEMORY_UNUSED:
        return _memory_unused(use, holding, held=held)
    busy, idle = _compute(use)
    if busy is None or idle is None:
        return held
    if kind is LowUse.GPU_IDLE:
        return not holding.makes_steps and idle >= NO_KERNEL(held)
    if not holding.makes_steps:
        return False
    if kind is LowUse.LOADER_BOUND:
        return idle >= PAUSES(held) and busy <= LOADER_BUSY(held)
    memory = use.memory_percent
    return busy <= BATCH_BUSY(held) and (held or idle < PAUSES.enter) and memory is not None and memory <= ROOM(held)


def _memory_unused(use: MeasuredUse, holding: Holding, *, held: bool) -> bool:
    """A smaller share frees memory for others at no cost. On a whole GPU, this only counts if little of its compute is
    used either.
    """
    if (
        not use.memory_peak_mib
        or not use.held_mib
        or needed_mib(use.memory_peak_mib) * 100 > NEEDED(held) * use.held_mib
    ):
        return False
    busy, _ = _compute(use)
    return holding.is_share or (busy is not None and busy <= BATCH_BUSY(held))


def _compute(use: MeasuredUse) -> tuple[int | None, int | None]:
    """Busy and idle percent, if the samples are enough and show this job alone."""
    if use.shared or use.busy_samples < ENOUGH_SAMPLES:
        return None, None
    return use.busy_percent, use.idle_percent


def sentences(kind: LowUse, use: MeasuredUse, holding: Holding, minutes: int) -> str:
    """What was seen, one thing to try, and what it brings."""
    busy, idle = use.busy_percent or 0, use.idle_percent or 0
    if kind is LowUse.GPU_IDLE:
        gpus = counted(holding.gpus, "GPU")
        return (
            f"In {minutes} minutes no step was made, and in {idle} % of the samples no kernel ran on its GPUs."
            f" Try: `spec.idleTimeout: 30m`, which ends a job that hangs; its logs show where it is."
            f" Gain: {gpus} for whoever waits."
        )
    if kind is LowUse.LOADER_BOUND:
        return (
            f"In {minutes} minutes a kernel ran in {busy} % of the time and none in {idle} % of the samples while steps"
            f" were made: its GPUs wait for data. Try: more loader processes, with `resources.cpu:"
            f" {show_cpu(2 * holding.cpu_milli)}` instead of {show_cpu(holding.cpu_milli)}."
            f" Gain: at most {_times(busy)} as many steps."
        )
    if kind is LowUse.SMALL_BATCH:
        return (
            f"In {minutes} minutes a kernel ran in {busy} % of the time, without longer pauses: its kernels are short."
            f" Try: a batch twice as large; of {gib(use.held_mib)} of GPU memory {gib(use.memory_peak_mib)} were used"
            f" at most. Gain: at most {_times(busy)} as many samples a second."
        )
    needed = needed_mib(use.memory_peak_mib)
    return (
        f"Its processes used at most {gib(use.memory_peak_mib)} of {gib(use.held_mib)} of a GPU."
        f" Try: `gpu.memory: {needed // GIB}Gi` next time."
        f" Gain: {gib(use.held_mib - needed)} of each GPU for others, and a smaller job starts sooner."
    )


def _times(busy_percent: int) -> str:
    """`3.3 times`: the speed-up if all pauses vanished."""
    tenths = min(100, 1000 // max(1, busy_percent))
    return f"{tenths // 10}.{tenths % 10} times"
