"""Steps that flax, Keras and a loop for JAX's profiler count themselves: looked at, through stand-ins."""

import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import framework_steps
from cotenant_worker.hook.cotenant_shim import steps as counting
from tests.worker.messaging.recording_launcher import RecordingLauncher


class ArrayImpl:
    """Has the name of JAX's arrays."""

    def __init__(self, value: Any, ready: bool = True) -> None:
        self.value = value
        self.ready = ready

    def is_ready(self) -> bool:
        return self.ready

    def addressable_data(self, _index: int) -> Any:
        return self.value


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> RecordingLauncher:
    """A launcher of which nothing runs by itself."""
    import numpy  # noqa: F401 - JAX has imported it

    launcher = RecordingLauncher()
    for module in (counting, framework_steps):
        monkeypatch.setattr(module, "heartbeat", launcher)
    monkeypatch.setattr(counting, "launcher", launcher)
    steps = counting.StepCounter()
    for module in (counting, framework_steps):
        monkeypatch.setattr(module, "step_counter", steps)
    monkeypatch.setattr(counting, "is_training_process", lambda: True)
    monkeypatch.setattr(framework_steps, "is_training_process", lambda: False)
    monkeypatch.setattr(framework_steps, "counter_watcher", framework_steps.CounterWatcher())
    return launcher


def train_states() -> tuple[Any, Any]:
    """flax's class, hooked, and a program's own one."""

    @dataclass(frozen=True)
    class TrainState:
        step: Any

    framework_steps.after_flax_train_state(SimpleNamespace(TrainState=TrainState))

    @dataclass(frozen=True)
    class WithStatistics(TrainState):
        batch_stats: Any = None

    return TrainState, WithStatistics


@pytest.mark.parametrize("which", [0, 1], ids=["flax's own", "a subclass"])
def test_the_newest_train_state_says_the_step(launcher: RecordingLauncher, which: int) -> None:
    state = train_states()[which]
    state(0)
    for step in (1, 2, 7):
        state(ArrayImpl(step))
    state("what stands for it while a function is traced")
    framework_steps.counter_watcher.poll()
    assert launcher.counters == {"step": 7}


def test_a_loop_that_compiles_nothing_counts_in_plain_numbers(launcher: RecordingLauncher) -> None:
    state = train_states()[0]
    for step in range(4):
        state(step)
    framework_steps.counter_watcher.poll()
    assert launcher.counters == {"step": 3}


def test_a_short_program_says_at_its_end_how_far_it_came(launcher: RecordingLauncher) -> None:
    state = train_states()[0]
    state(0)
    state(ArrayImpl(30))
    framework_steps.counter_watcher.flush_at_exit()
    assert launcher.flushed == {"step": 30}


def test_what_is_not_computed_yet_is_looked_at_later(launcher: RecordingLauncher) -> None:
    state = train_states()[0]
    state(0)
    pending = ArrayImpl(4, ready=False)
    state(pending)
    framework_steps.counter_watcher.poll()
    assert launcher.counters == {}
    pending.ready = True
    framework_steps.counter_watcher.poll()
    assert launcher.counters == {"step": 4}


def test_what_a_checkpoint_brought_is_no_step_of_this_run(launcher: RecordingLauncher) -> None:
    state = train_states()[0]
    state(ArrayImpl(500))
    framework_steps.counter_watcher.poll()
    assert launcher.counters == {}
    state(ArrayImpl(501))
    framework_steps.counter_watcher.poll()
    assert launcher.counters == {"step": 501}


def test_a_second_training_goes_on_stirring_until_it_is_further(launcher: RecordingLauncher) -> None:
    state = train_states()[0]
    state(0)
    for step in (100, 1, 2):
        state(ArrayImpl(step))
        framework_steps.counter_watcher.poll()
    assert launcher.counters == {"step": 100}
    assert launcher.activity["counters"]() == 3


def test_the_optimizer_of_nnx_counts_in_a_variable(launcher: RecordingLauncher) -> None:
    class Variable:
        value: Any = ArrayImpl(0)

        def get_raw_value(self) -> Any:
            return self.value

    class Optimizer:
        def __init__(self) -> None:
            self.step = Variable()

    framework_steps.after_flax_optimizer(SimpleNamespace(Optimizer=Optimizer))
    optimizer = Optimizer()
    framework_steps.counter_watcher.poll()
    assert launcher.counters == {}
    optimizer.step.value = ArrayImpl(9)
    framework_steps.counter_watcher.poll()
    assert launcher.counters == {"step": 9}


@pytest.mark.parametrize(("backend", "shown"), [("tensorflow", {"step": 3}), ("jax", {})])
def test_an_optimizer_of_keras_counts_under_tensorflow(
    launcher: RecordingLauncher, monkeypatch: pytest.MonkeyPatch, backend: str, shown: dict[str, int]
) -> None:
    class BaseOptimizer:
        def __init__(self) -> None:
            self._iterations = SimpleNamespace(numpy=lambda: 3)

    config = SimpleNamespace(backend=lambda: backend)
    monkeypatch.setitem(sys.modules, "keras.src.backend.config", config)
    framework_steps.after_keras_optimizer(SimpleNamespace(BaseOptimizer=BaseOptimizer))
    BaseOptimizer()
    framework_steps.counter_watcher.poll()
    assert launcher.counters == shown


def test_fit_counts_on_where_its_optimizer_was_seen_to_move_first(launcher: RecordingLauncher) -> None:
    counting.step_counter.set_total(counting.KERAS_ITERATIONS, 1)
    assert [counting.step_counter.add("fit") for _ in range(19)] == [False] * 18 + [True]
    counting.step_counter.set_total(counting.KERAS_ITERATIONS, 50)
    assert launcher.counters == {"step": 20}


def test_a_loop_that_marks_its_steps_for_the_profiler_says_them(launcher: RecordingLauncher) -> None:
    class StepTraceAnnotation:
        def __init__(self, name: str, **words: Any) -> None:
            self.arguments = (name, words)

    framework_steps.after_step_annotation(SimpleNamespace(StepTraceAnnotation=StepTraceAnnotation))
    assert StepTraceAnnotation("train", step_num=5).arguments == ("train", {"step_num": 5})
    StepTraceAnnotation("eval", step_num=80)
    StepTraceAnnotation("train")
    assert launcher.counters == {"step": 5}
