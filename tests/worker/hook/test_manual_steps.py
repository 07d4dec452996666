"""Backward passes as steps, in torch programs that have no optimizer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import manual_steps
from cotenant_worker.hook.cotenant_shim import steps as counting
from tests.worker.messaging.recording_launcher import RecordingLauncher


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> RecordingLauncher:
    launcher = RecordingLauncher()
    monkeypatch.setattr(counting, "heartbeat", launcher)
    monkeypatch.setattr(counting, "launcher", launcher)
    monkeypatch.setattr(counting, "step_counter", counting.StepCounter())
    monkeypatch.setattr(counting, "is_training_process", lambda: True)
    return launcher


def passes(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    made = manual_steps.BackwardPasses()
    monkeypatch.setattr(manual_steps, "step_counter", counting.step_counter)
    for _ in range(number):
        made.add()


def test_backward_passes_are_steps_where_no_optimizer_has_stepped_after_some(
    launcher: RecordingLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes(monkeypatch, manual_steps.MIN_PASSES - 1)
    assert launcher.counters == {}
    passes(monkeypatch, manual_steps.MIN_PASSES + 5)
    assert launcher.counters == {"step": manual_steps.MIN_PASSES + 5}


def test_an_optimizer_that_steps_after_many_passes_takes_the_count_over(
    launcher: RecordingLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes(monkeypatch, 32)
    counting.step_counter.add("sgd")
    passes(monkeypatch, 32)
    assert launcher.counters == {"step": 1}


def tensors(monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> Any:
    """torch's class, patched; `backward` returns its arguments."""

    class Tensor:
        def backward(self, *args: Any, **kwargs: Any) -> Any:
            return args, kwargs

    def add() -> bool:
        if fails:
            raise RuntimeError("no counter")
        return next(due)

    due = iter([False, True, False])
    monkeypatch.setattr(manual_steps, "backward_passes", SimpleNamespace(add=add))
    manual_steps.after_tensor(SimpleNamespace(Tensor=Tensor))
    return Tensor


@pytest.mark.parametrize(("isolated", "warnings"), [(True, 1), (False, 0)])
def test_a_rank_that_meets_no_other_by_the_synchronized_pass_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, isolated: bool, warnings: int
) -> None:
    warned: list[None] = []
    monkeypatch.setattr(manual_steps, "is_isolated", lambda: isolated)
    monkeypatch.setattr(manual_steps, "warn_isolated", lambda: warned.append(None))
    loss = tensors(monkeypatch)()
    assert [loss.backward("gradient", retain_graph=True) for _ in range(3)] == [
        (("gradient",), {"retain_graph": True})
    ] * 3
    assert len(warned) == warnings


def test_a_backward_pass_does_not_fail_because_counting_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tensors(monkeypatch, fails=True)().backward("gradient") == (("gradient",), {})
