"""What is said of a job that leaves much unused, and when that is not said any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.decision_log.low_use import Holding, LowUse, judged, sentences
from cotenant.decision_log.measured_use import MeasuredUse

TRAINS = Holding(gpus=2, is_share=False, cpu_milli=4000, makes_steps=True)
HANGS = replace(TRAINS, makes_steps=False)
SHARE = replace(TRAINS, is_share=True)


def use(busy: int, idle: int, memory: int = 90, **changes: Any) -> MeasuredUse:
    """A hundred samples; all in percent, memory of 32 GiB."""
    held = 32 * 1024
    return replace(
        MeasuredUse(
            samples=100, busy_samples=100, busy_percent_sum=100 * busy, idle_samples=idle,
            memory_peak_mib=-(-held * memory // 100), held_mib=held,
        ),
        **changes,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("measured", "holding", "kind"),
    [
        pytest.param(use(0, 100), HANGS, LowUse.GPU_IDLE, id="nothing computes and no step is made"),
        pytest.param(use(1, 89), HANGS, None, id="something computes now and then"),
        pytest.param(use(0, 100), TRAINS, LowUse.LOADER_BOUND, id="steps without kernels wait for something"),
        pytest.param(use(50, 30), TRAINS, LowUse.LOADER_BOUND, id="pauses between steps"),
        pytest.param(use(51, 30), TRAINS, None, id="pauses of a GPU that is busy otherwise"),
        pytest.param(use(40, 29, 50), TRAINS, LowUse.SMALL_BATCH, id="short kernels and room for larger ones"),
        pytest.param(use(40, 29, 51), TRAINS, None, id="short kernels and no room"),
        pytest.param(use(41, 0, 10), TRAINS, None, id="a whole GPU that computes keeps its memory"),
        pytest.param(use(41, 0, 47), SHARE, LowUse.MEMORY_UNUSED, id="a share that is never filled"),
        pytest.param(use(41, 0, 49), SHARE, None, id="a share with a quarter more than its peak"),
        pytest.param(use(95, 0, 10, shared=True), SHARE, LowUse.MEMORY_UNUSED, id="memory is known beside others"),
        pytest.param(use(0, 100, shared=True), TRAINS, None, id="whose kernels ran is not known beside others"),
        pytest.param(use(0, 100, busy_samples=7), TRAINS, None, id="the driver says little of compute"),
        pytest.param(use(0, 100, samples=7), TRAINS, None, id="hardly looked at"),
        pytest.param(use(10, 20, 10), HANGS, LowUse.MEMORY_UNUSED, id="a program that tells no steps"),
        pytest.param(use(10, 20, 0), HANGS, None, id="no process of it was seen to have memory"),
        pytest.param(use(95, 0), TRAINS, None, id="well used"),
    ],
)
def test_what_is_said(measured: MeasuredUse, holding: Holding, kind: LowUse | None) -> None:
    assert judged(measured, holding, None) is kind


@pytest.mark.parametrize(
    ("held", "measured", "holding", "kind"),
    [
        (LowUse.GPU_IDLE, use(0, 75), HANGS, LowUse.GPU_IDLE),
        (LowUse.GPU_IDLE, use(60, 74), HANGS, None),
        (LowUse.GPU_IDLE, use(0, 100), TRAINS, LowUse.LOADER_BOUND),
        (LowUse.LOADER_BOUND, use(65, 20), TRAINS, LowUse.LOADER_BOUND),
        (LowUse.LOADER_BOUND, use(66, 20), TRAINS, None),
        (LowUse.LOADER_BOUND, use(65, 19), TRAINS, None),
        (LowUse.SMALL_BATCH, use(55, 40, 60), TRAINS, LowUse.SMALL_BATCH),
        (LowUse.SMALL_BATCH, use(55, 0, 61), TRAINS, None),
        (LowUse.MEMORY_UNUSED, use(95, 0, 59), SHARE, LowUse.MEMORY_UNUSED),
        (LowUse.MEMORY_UNUSED, use(95, 0, 62), SHARE, None),
        (LowUse.LOADER_BOUND, use(0, 0, samples=0, busy_samples=0), TRAINS, LowUse.LOADER_BOUND),
        (LowUse.SMALL_BATCH, use(90, 0, 40, shared=True), TRAINS, LowUse.SMALL_BATCH),
    ],
)
def test_what_was_said_stays_until_it_is_clearly_refuted(
    held: LowUse, measured: MeasuredUse, holding: Holding, kind: LowUse | None
) -> None:
    assert judged(measured, holding, held) is kind


@given(
    busy=st.integers(0, 100), idle=st.integers(0, 100), memory=st.integers(0, 100),
    holding=st.sampled_from([TRAINS, HANGS, SHARE]),
)  # fmt: skip
def test_who_comes_to_a_finding_stays_there_for_the_same_use(
    busy: int, idle: int, memory: int, holding: Holding
) -> None:
    found = judged(use(busy, idle, memory), holding, None)
    if found is not None:
        assert judged(use(busy, idle, memory), holding, found) is found


@given(steps=st.lists(st.tuples(st.integers(46, 64), st.integers(21, 29)), min_size=1, max_size=20))
def test_use_between_the_bounds_changes_nothing(steps: list[tuple[int, int]]) -> None:
    for held in (None, LowUse.LOADER_BOUND):
        assert {judged(use(busy, idle), TRAINS, held) for busy, idle in steps} == {held}


def test_each_finding_has_the_one_thing_to_try_and_its_gain() -> None:
    said = {kind: sentences(kind, use(30, 45, 25), SHARE, 10) for kind in LowUse}
    assert said == {
        LowUse.GPU_IDLE: (
            "In 10 minutes no step was made, and in 45 % of the samples no kernel ran on its GPUs."
            " Try: `spec.idleTimeout: 30m`, which ends a job that hangs; its logs show where it is."
            " Gain: 2 GPUs for whoever waits."
        ),
        LowUse.LOADER_BOUND: (
            "In 10 minutes a kernel ran in 30 % of the time and none in 45 % of the samples while steps were made: its"
            " GPUs wait for data. Try: more loader processes, with `resources.cpu: 8` instead of 4."
            " Gain: at most 3.3 times as many steps."
        ),
        LowUse.SMALL_BATCH: (
            "In 10 minutes a kernel ran in 30 % of the time, without longer pauses: its kernels are short."
            " Try: a batch twice as large; of 32.0 GiB of GPU memory 8.0 GiB were used at most."
            " Gain: at most 3.3 times as many samples a second."
        ),
        LowUse.MEMORY_UNUSED: (
            "Its processes used at most 8.0 GiB of 32.0 GiB of a GPU. Try: `gpu.memory: 10Gi` next time."
            " Gain: 22.0 GiB of each GPU for others, and a smaller job starts sooner."
        ),
    }
