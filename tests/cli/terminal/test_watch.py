"""An answer that is watched is printed when it is another, and a change of the leader ends no watch."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from cotenant.cli.errors import EXIT_FORBIDDEN, EXIT_UNAVAILABLE, UserError
from cotenant.cli.terminal.watch import CLEAR, show


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def answering(*answers: str | UserError) -> Callable[[], str]:
    left = list(answers)

    def answer() -> str:
        if not left:
            raise KeyboardInterrupt
        found = left.pop(0)
        if isinstance(found, UserError):
            raise found
        return found

    return answer


def watched(output: str, *answers: str | UserError) -> None:
    with pytest.raises(KeyboardInterrupt):
        show(argparse.Namespace(watch=True, output=output), answering(*answers))


@pytest.mark.parametrize(
    ("output", "printed"), [("text", "one\n\ntwo\n"), ("yaml", "one\n---\ntwo\n"), ("json", "one\ntwo\n")]
)
def test_in_a_pipe_an_answer_that_is_another_follows_the_last(
    capsys: pytest.CaptureFixture[str], output: str, printed: str
) -> None:
    watched(output, "one", "one", "two", "two")
    assert capsys.readouterr().out == printed


def test_on_a_terminal_it_takes_the_place_of_the_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    watched("text", "one", "one", "two")
    assert capsys.readouterr().out == f"{CLEAR}one\n{CLEAR}two\n"


def test_an_operator_that_is_away_for_a_while_ends_no_watch(capsys: pytest.CaptureFixture[str]) -> None:
    watched("text", "one", UserError("ask again", EXIT_UNAVAILABLE), "one", "two")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("one\n\ntwo\n", "ask again\n")


def test_a_refusal_ends_it() -> None:
    with pytest.raises(UserError, match="may not"):
        show(argparse.Namespace(watch=True, output="text"), answering("one", UserError("may not", EXIT_FORBIDDEN)))


def test_without_the_flag_it_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(argparse.Namespace(watch=False, output="text"), answering("one\n")) == 0
    assert capsys.readouterr().out == "one\n"
