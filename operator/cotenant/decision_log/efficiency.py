"""What a run used of what it held, and what to write instead: sentences with the field and its value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cotenant.core.model.formatting import format_duration
from cotenant.decision_log.runs import RunRecord
from cotenant.names import ENOUGH_SAMPLES

HEADROOM_PERCENT: Final = 125
"""A suggested share is this percentage of the peak."""
GIB: Final = 1024


def advice(run: RunRecord) -> Iterator[str]:
    """Sentences, the one that frees most first. Empty if the run used what it held."""
    yield from _of_memory(run)
    yield from _of_compute(run)
    yield from _of_time(run)
    yield from _of_restarts(run)


def _of_memory(run: RunRecord) -> Iterator[str]:
    use = run.use
    percent = use.memory_percent
    if percent is None or not use.memory_peak_mib or use.samples < ENOUGH_SAMPLES or percent > 60:
        return
    needed = needed_mib(use.memory_peak_mib)
    if needed >= use.held_mib:
        return
    yield (
        f"Its processes used at most {gib(use.memory_peak_mib)} of {gib(use.held_mib)} of a GPU ({percent} %):"
        f" ask for `gpu.memory: {needed // GIB}Gi`; the rest is for others, and a smaller job starts sooner."
    )


def _of_compute(run: RunRecord) -> Iterator[str]:
    use = run.use
    busy, idle = use.busy_percent, use.idle_percent
    if busy is None or idle is None or use.busy_samples < ENOUGH_SAMPLES:
        return
    if idle >= 50:
        yield (
            f"Its GPUs did nothing in {idle} % of the samples: they wait for data or for the CPU. More loader workers"
            " and `resources.cpu` help, or fewer GPUs; `idleTimeout` ends a job that hangs."
        )
    elif busy < 40 and not use.shared:
        yield f"A kernel ran in {busy} % of the time: a share (`gpu.memoryFraction`) may do, or a larger batch."


def _of_time(run: RunRecord) -> Iterator[str]:
    if run.outcome != "Succeeded" or run.run_seconds < 60:
        return
    wanted = format_duration(-(-run.run_seconds * 5 // 4 // 60) * 60)
    if run.expected_seconds is None:
        yield f"It declares no `expectedRuntime`. With `expectedRuntime: {wanted}` it may start in gaps before others."
    elif run.expected_seconds > 2 * run.run_seconds:
        yield (
            f"It declared {format_duration(run.expected_seconds)} and ran {format_duration(run.run_seconds)}:"
            f" `expectedRuntime: {wanted}` lets it start in gaps that it fits into."
        )


def _of_restarts(run: RunRecord) -> Iterator[str]:
    if run.restarts and not run.checkpoints:
        times = "once" if run.restarts == 1 else f"{run.restarts} times"
        yield f"It was started again {times}, from the beginning: name a `checkpoint`, and it goes on where it was."


def needed_mib(peak_mib: int) -> int:
    """Memory to ask for: the peak and a quarter more, in whole GiB."""
    return -(-peak_mib * HEADROOM_PERCENT // 100 // GIB) * GIB


def gib(mib: int) -> str:
    return f"{mib / GIB:.1f} GiB"
