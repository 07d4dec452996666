"""The question before a change."""

from __future__ import annotations

import pytest

from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.terminal.confirmation import agreed


@pytest.mark.parametrize(("answer", "meant"), [("y", True), (" YES ", True), ("", False), ("no", False), ("j", False)])
def test_only_a_yes_agrees(monkeypatch: pytest.MonkeyPatch, answer: str, meant: bool) -> None:
    asked: list[str] = []

    def ask(text: str) -> str:
        asked.append(text)
        return answer

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", ask)
    assert agreed("Drain n1?") is meant
    assert asked == ["Drain n1? [y/N] "]


@pytest.mark.parametrize(
    ("instead", "says"),
    [((), "give --yes, or --dry-run"), (("--yes",), "this is no terminal, so nobody can answer: give --yes")],
)
def test_nobody_is_asked_where_nobody_sits(instead: tuple[str, ...], says: str) -> None:
    with pytest.raises(UserError, match=says) as refused:
        agreed("Drain n1?", *instead)
    assert refused.value.exit_code == EXIT_USAGE
