"""Steps that a program does not tell: of Keras's `fit`, through a stand-in for its list of callbacks."""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import manual_steps
from cotenant_worker.hook.cotenant_shim import steps as counting


class Line:
    """What counting uses of `LauncherClient` and `Heartbeat`."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.activity: dict[str, Callable[[], int]] = {}
        self.words: dict[str, int] = {}

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def start(self) -> None:
        pass

    def get_counter(self, name: str) -> int:
        return self.words.get(name, 0)

    def set_counter(self, name: str, value: int) -> None:
        self.words[name] = value


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    line = Line()
    monkeypatch.setattr(counting, "heartbeat", line)
    monkeypatch.setattr(counting, "launcher", line)
    monkeypatch.setattr(counting, "step_counter", counting.StepCounter())
    monkeypatch.setattr(counting, "is_training_process", lambda: True)
    return line


def tensorflow(monkeypatch: pytest.MonkeyPatch, **known: Any) -> None:
    """What TensorFlow knows of a cluster, as far as it is asked."""
    nothing = {"_collective_ops_server_def": None, "_server_def": None, "coordination_service": None}
    context = SimpleNamespace(**nothing | known)
    monkeypatch.setitem(sys.modules, "keras.src.backend.config", SimpleNamespace(backend=lambda: "tensorflow"))
    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.context", SimpleNamespace(context=lambda: context))
    monkeypatch.setattr(counting, "is_isolated", lambda: True)


@pytest.mark.parametrize(
    ("known", "told"),
    [
        pytest.param({}, 1, id="none"),
        pytest.param({"_collective_ops_server_def": "a cluster"}, 0, id="MultiWorkerMirroredStrategy"),
        pytest.param({"_server_def": "a cluster"}, 0, id="a cluster that one process leads"),
    ],
)
def test_ranks_whose_tensorflow_is_in_no_cluster_are_told_once(
    line: Line, monkeypatch: pytest.MonkeyPatch, known: dict[str, Any], told: int
) -> None:
    said: list[str] = []
    monkeypatch.setattr(counting, "warn_isolated", said.append)
    tensorflow(monkeypatch, **known)
    once = callbacks()()
    for batch in range(40):
        once.on_train_batch_end(batch)
    assert len(said) == told


def callbacks() -> Any:
    """Keras's list, hooked; `seen` holds what the program's own callbacks would get."""

    class CallbackList:
        def __init__(self) -> None:
            self.seen: list[int] = []
            self.logs: list[Any] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.seen.append(batch)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.logs.append(logs)

    module = SimpleNamespace(CallbackList=CallbackList)
    counting.after_keras_callbacks(module)
    return module.CallbackList


def test_the_steps_of_all_epochs_and_fits_are_counted(line: Line) -> None:
    fit = callbacks()
    for _ in range(2):
        once = fit()
        for batch in (0, 1, 2, 0, 1, 2):  # two epochs
            once.on_train_batch_end(batch)
        assert once.seen == [0, 1, 2, 0, 1, 2]
    assert line.words == {"step": 12}
    assert [message["first_step"] for message in line.sent] == [True]


def test_steps_that_are_done_together_count_as_so_many(line: Line) -> None:
    once = callbacks()()
    for batch in (9, 19, 24, 9):
        once.on_train_batch_end(batch)
    assert line.words == {"step": 35}


def test_a_second_source_of_steps_adds_nothing(line: Line) -> None:
    assert not counting.step_counter.add("an optimizer of torch's")
    callbacks()().on_train_batch_end(0)
    assert line.words == {"step": 1}


def passes(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    made = manual_steps.BackwardPasses()
    monkeypatch.setattr(manual_steps, "step_counter", counting.step_counter)
    for _ in range(number):
        made.add()


def test_backward_passes_are_steps_where_no_optimizer_has_stepped_after_some(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes(monkeypatch, manual_steps.MIN_PASSES - 1)
    assert line.words == {}
    passes(monkeypatch, manual_steps.MIN_PASSES + 5)
    assert line.words == {"step": manual_steps.MIN_PASSES + 5}


def test_an_optimizer_that_steps_after_many_passes_takes_the_count_over(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes(monkeypatch, 32)
    counting.step_counter.add("sgd")
    passes(monkeypatch, 32)
    assert line.words == {"step": 1}


def test_ranks_have_met_by_the_twentieth_step_also_when_it_comes_with_others(line: Line) -> None:
    found = [counting.step_counter.add("fit", 8) for _ in range(4)]
    assert found == [False, False, True, False]


def test_a_process_that_does_not_train_for_its_rank_counts_nothing(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "is_training_process", lambda: False)
    callbacks()().on_train_batch_end(0)
    assert (line.words, line.sent) == ({}, [])


def test_a_process_that_trains_after_another_one_of_its_rank_counts_on(line: Line) -> None:
    line.words["step"] = 94
    assert [counting.step_counter.add("sgd") for _ in range(20)] == [False] * 19 + [True]
    assert line.words == {"step": 114}


def test_an_epochs_metrics_are_told_at_its_end_as_of_its_last_step(line: Line) -> None:
    once = callbacks()()
    once.on_epoch_end(0, {"loss": 3.0})  # of a rank that does not train
    for batch in (0, 1):
        once.on_train_batch_end(batch)
    logs = {"loss": 0.5, "val_loss": 0.25, "per_class": SimpleNamespace(ndim=1)}
    once.on_epoch_end(1, logs)
    told = [message for message in line.sent if message["op"] == "report"]
    assert [(message["step"], message["counted"], message["metrics"]) for message in told] == [
        (2, True, {"loss": 0.5, "val_loss": 0.25})
    ]
    assert once.logs == [{"loss": 3.0}, logs]


def test_the_optimizer_of_the_next_fold_is_counted_from_its_first_step_on(line: Line) -> None:
    for fold in ("first", "second", "third"):
        for _ in range(150):
            counting.step_counter.add(fold)
    assert line.words == {"step": 450}


def test_optimizers_that_take_turns_are_counted_as_one(line: Line) -> None:
    """A GAN whose discriminator makes five steps for one of its generator; here the generator came first."""
    for _ in range(40):
        counting.step_counter.add("generator")
        for _ in range(5):
            counting.step_counter.add("discriminator")
    assert line.words == {"step": 40}


def test_steps_that_are_not_counted_show_that_something_goes_on(line: Line) -> None:
    """Else a program could be taken for one that stands still in the first steps of its second optimizer."""
    counting.step_counter.add("first")
    for _ in range(30):
        counting.step_counter.add("second")
    assert line.words == {"step": 1}
    assert line.activity["steps"]() == 30


def test_where_the_first_optimizer_is_gone_the_next_one_counts_at_once(line: Line) -> None:
    class Optimizer:
        pass

    first = Optimizer()
    others = [Optimizer(), Optimizer()]  # made before the first goes: none of them lies where it lay
    for optimizer in (first, first, others[0], first):
        counting.step_counter.add_optimizer_step(optimizer)
    assert line.words == {"step": 3}
    del first, optimizer
    for _ in range(4):
        counting.step_counter.add_optimizer_step(others[0])
        counting.step_counter.add_optimizer_step(others[1])
    assert line.words == {"step": 7}
