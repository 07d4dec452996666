"""Steps that a program does not tell: of Keras's `fit`, through a stand-in for its list of callbacks."""

from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import steps as counting


class Line:
    """Of `Pulse` what counting uses."""

    rank = 0

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.words: dict[str, int] = {}

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def start(self) -> None:
        pass

    def word(self, name: str, value: int | None = None) -> int:
        if value is not None:
            self.words[name] = value
        return self.words.get(name, 0)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    line = Line()
    monkeypatch.setattr(counting, "pulse", line)
    monkeypatch.setattr(counting, "steps", counting.Steps())
    monkeypatch.setattr(counting, "trains", lambda: True)
    return line


def callbacks() -> Any:
    """Keras's list, hooked; `seen` holds what the program's own callbacks would get."""

    class CallbackList:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.seen.append(batch)

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
    assert [message["stepped"] for message in line.sent] == [True]


def test_steps_that_are_done_together_count_as_so_many(line: Line) -> None:
    once = callbacks()()
    for batch in (9, 19, 24, 9):
        once.on_train_batch_end(batch)
    assert line.words == {"step": 35}


def test_a_second_source_of_steps_adds_nothing(line: Line) -> None:
    assert not counting.steps.made("an optimizer of torch's")
    callbacks()().on_train_batch_end(0)
    assert line.words == {"step": 1}


def test_ranks_have_met_by_the_twentieth_step_also_when_it_comes_with_others(line: Line) -> None:
    found = [counting.steps.made("fit", 8) for _ in range(4)]
    assert found == [False, False, True, False]


def test_a_process_that_does_not_train_for_its_rank_counts_nothing(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "trains", lambda: False)
    callbacks()().on_train_batch_end(0)
    assert (line.words, line.sent) == ({}, [])


def test_a_process_that_trains_after_another_one_of_its_rank_counts_on(line: Line) -> None:
    line.words["step"] = 94
    assert [counting.steps.made("sgd") for _ in range(20)] == [False] * 19 + [True]
    assert line.words == {"step": 114}
