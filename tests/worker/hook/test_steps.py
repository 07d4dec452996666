"""Steps that a program does not tell: of Keras's `fit`, through a stand-in for its list of callbacks."""

import copy
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

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


def tensorflow(monkeypatch: pytest.MonkeyPatch, **known: Any) -> None:
    """What TensorFlow knows of a cluster, as far as it is asked."""
    nothing = {"_collective_ops_server_def": None, "_server_def": None, "coordination_service": None}
    context = SimpleNamespace(**nothing | known)
    monkeypatch.setitem(sys.modules, "keras.src.backend.config", SimpleNamespace(backend=lambda: "tensorflow"))
    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.context", SimpleNamespace(context=lambda: context))
    monkeypatch.setattr(counting, "is_isolated", lambda: True)


@pytest.mark.parametrize(
    ("known", "warnings"),
    [
        pytest.param({}, 1, id="none"),
        pytest.param({"_collective_ops_server_def": "a cluster"}, 0, id="MultiWorkerMirroredStrategy"),
        pytest.param({"_server_def": "a cluster"}, 0, id="a cluster that one process leads"),
    ],
)
def test_ranks_whose_tensorflow_is_in_no_cluster_are_told_once(
    launcher: RecordingLauncher, monkeypatch: pytest.MonkeyPatch, known: dict[str, Any], warnings: int
) -> None:
    texts: list[str] = []
    monkeypatch.setattr(counting, "warn_isolated", texts.append)
    tensorflow(monkeypatch, **known)
    once = callbacks()()
    for batch in range(40):
        once.on_train_batch_end(batch)
    assert len(texts) == warnings


def callbacks() -> Any:
    """Keras's list, hooked; `seen` holds what the program's own callbacks would get."""

    class CallbackList:
        def __init__(self) -> None:
            self.seen: list[int] = []
            self.logs: list[Any] = []

        def on_train_begin(self, logs: Any = None) -> None:
            pass

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.seen.append(batch)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.logs.append(logs)

    module = SimpleNamespace(CallbackList=CallbackList)
    counting.after_keras_callbacks(module)
    return module.CallbackList


def test_the_steps_of_all_epochs_and_fits_are_counted(launcher: RecordingLauncher) -> None:
    fit = callbacks()
    for _ in range(2):
        once = fit()
        for batch in (0, 1, 2, 0, 1, 2):  # two epochs
            once.on_train_batch_end(batch)
        assert once.seen == [0, 1, 2, 0, 1, 2]
    assert (launcher.counters, launcher.trainer) == ({"step": 12}, os.getpid())
    assert [message["first_step"] for message in launcher.sent] == [True]


def test_steps_that_are_done_together_count_as_so_many(launcher: RecordingLauncher) -> None:
    once = callbacks()()
    for batch in (9, 19, 24, 9):
        once.on_train_batch_end(batch)
    assert launcher.counters == {"step": 35}


def test_a_second_source_of_steps_adds_nothing(launcher: RecordingLauncher) -> None:
    assert not counting.step_counter.add("an optimizer of torch's")
    callbacks()().on_train_batch_end(0)
    assert launcher.counters == {"step": 1}


def test_ranks_have_met_by_the_twentieth_step_also_when_it_comes_with_others(launcher: RecordingLauncher) -> None:
    found = [counting.step_counter.add("fit", 8) for _ in range(4)]
    assert found == [False, False, True, False]


def test_a_process_that_does_not_train_for_its_rank_counts_nothing(
    launcher: RecordingLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "is_training_process", lambda: False)
    callbacks()().on_train_batch_end(0)
    assert (launcher.counters, launcher.trainer, launcher.sent) == ({}, 0, [])


def test_a_process_that_trains_after_another_one_of_its_rank_counts_on(launcher: RecordingLauncher) -> None:
    launcher.counters["step"] = 94
    assert [counting.step_counter.add("sgd") for _ in range(20)] == [False] * 19 + [True]
    assert launcher.counters == {"step": 114}


class Optimizer:
    """One of torch's, as far as its own count goes; `kept`: steps that were loaded with its state."""

    def __init__(self, kept: int | None = 0, **group: Any) -> None:
        self.param_groups: list[dict[str, Any]] = [{"lr": 0.1, **group}]
        self.state: dict[str, dict[str, Any]] = {"w": {"exp_avg": 0.0}}
        if kept is not None:
            self.state["w"]["step"] = float(kept)

    def step(self) -> None:
        if "step" in self.state["w"]:
            self.state["w"]["step"] += 1
        counting.step_counter.add_optimizer_step(self)


@pytest.mark.parametrize(
    ("optimizer", "saver", "succeeds", "shown"),
    [
        pytest.param(Optimizer(0), 0, 0, 2, id="a new one"),
        pytest.param(Optimizer(191), 0, 0, 193, id="goes on, by its state"),
        pytest.param(Optimizer(191), 190, 0, 193, id="goes on, by its state, whatever the checkpoint notes"),
        pytest.param(Optimizer(None, step=191), 0, 0, 192, id="goes on, by its group"),
        pytest.param(Optimizer(None), 191, 0, 193, id="keeps no count, and was given a checkpoint"),
        pytest.param(Optimizer(None), 0, 0, 2, id="keeps no count, and no checkpoint does"),
        pytest.param(Optimizer(0), 191, 0, 2, id="a new one that did not load the checkpoint"),
        pytest.param(Optimizer(0), 0, 94, 96, id="a second training in another process"),
    ],
)
def test_steps_go_on_where_the_training_goes_on(
    launcher: RecordingLauncher, optimizer: Optimizer, saver: int, succeeds: int, shown: int
) -> None:
    launcher.counters["step"] = succeeds
    if saver:
        counting.step_counter.resume(saver)
    for _ in range(2):
        optimizer.step()
    assert launcher.counters == {"step": shown}


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"])
def test_torchs_optimizers_keep_their_count_through_a_checkpoint(name: str) -> None:
    def trained(steps: int, state: dict[str, Any] | None = None) -> torch.optim.Optimizer:
        weight = torch.nn.Parameter(torch.ones(2))
        optimizer: torch.optim.Optimizer = getattr(torch.optim, name)([weight])
        if state:
            optimizer.load_state_dict(copy.deepcopy(state))
        for _ in range(steps):
            weight.grad = torch.ones(2)
            optimizer.step()
        return optimizer

    first = trained(5)
    assert [counting.kept_steps(one) for one in (trained(1), first, trained(1, first.state_dict()))] == [1, 5, 6]


def test_an_optimizer_that_comes_later_adds_its_own_steps_alone(launcher: RecordingLauncher) -> None:
    first, second = Optimizer(0), Optimizer(5000)
    for _ in range(50):
        first.step()
    for _ in range(120):
        second.step()
    assert launcher.counters == {"step": 170}


def test_a_fit_of_a_model_that_was_loaded_goes_on_with_its_optimizers_count(launcher: RecordingLauncher) -> None:
    fit = callbacks()
    for kept in (191, 0):
        once = fit()
        once.model = SimpleNamespace(optimizer=SimpleNamespace(iterations=SimpleNamespace(numpy=lambda n=kept: n)))
        once.on_train_begin()
        once.on_train_batch_end(0)
    assert launcher.counters == {"step": 193}


def test_an_epochs_metrics_are_told_at_its_end_as_of_its_last_step(launcher: RecordingLauncher) -> None:
    once = callbacks()()
    once.on_epoch_end(0, {"loss": 3.0})  # of a rank that does not train
    for batch in (0, 1):
        once.on_train_batch_end(batch)
    logs = {"loss": 0.5, "val_loss": 0.25, "per_class": SimpleNamespace(ndim=1)}
    once.on_epoch_end(1, logs)
    reports = [message for message in launcher.sent if message["op"] == "report"]
    assert [(message["step"], message["counted"], message["metrics"]) for message in reports] == [
        (2, True, {"loss": 0.5, "val_loss": 0.25})
    ]
    assert once.logs == [{"loss": 3.0}, logs]


def test_the_optimizer_of_the_next_fold_is_counted_from_its_first_step_on(launcher: RecordingLauncher) -> None:
    for fold in ("first", "second", "third"):
        for _ in range(150):
            counting.step_counter.add(fold)
    assert launcher.counters == {"step": 450}


def test_optimizers_that_take_turns_are_counted_as_one(launcher: RecordingLauncher) -> None:
    """A GAN whose discriminator makes five steps for one of its generator; here the generator came first."""
    for _ in range(40):
        counting.step_counter.add("generator")
        for _ in range(5):
            counting.step_counter.add("discriminator")
    assert launcher.counters == {"step": 40}


def test_steps_that_are_not_counted_show_that_something_goes_on(launcher: RecordingLauncher) -> None:
    """Else a program could be taken for one that stands still in the first steps of its second optimizer."""
    counting.step_counter.add("first")
    for _ in range(30):
        counting.step_counter.add("second")
    assert launcher.counters == {"step": 1}
    assert launcher.activity["steps"]() == 30


def test_where_the_first_optimizer_is_gone_the_next_one_counts_at_once(launcher: RecordingLauncher) -> None:
    class Optimizer:
        pass

    first = Optimizer()
    others = [Optimizer(), Optimizer()]  # made before the first goes: none of them lies where it lay
    for optimizer in (first, first, others[0], first):
        counting.step_counter.add_optimizer_step(optimizer)
    assert launcher.counters == {"step": 3}
    del first, optimizer
    for _ in range(4):
        counting.step_counter.add_optimizer_step(others[0])
        counting.step_counter.add_optimizer_step(others[1])
    assert launcher.counters == {"step": 7}
