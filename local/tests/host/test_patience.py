"""Deadlines by what the machine gives: the share of a core that is left for one process among all that want to run."""

import os
from pathlib import Path

import pytest

from cotenant_local.host import patience
from cotenant_local.host.patience import Patience


@pytest.mark.parametrize(
    ("loadavg", "slower"),
    [
        ("0.10 0.20 0.30 1/300 4711\n", 1.0),
        ("2.00 0.20 0.30 3/300 4711\n", 1.0),
        ("15.00 9.00 3.00 4/300 4711\n", 7.5),
        ("1.00 0.20 0.30 13/300 4711\n", 6.0),  # what has just begun is in no average yet
        ("400.00 90.00 30.00 9/300 4711\n", patience.MOST),
        ("", 1.0),
    ],
)
def test_as_many_as_want_to_run_on_a_core_share_it(
    loadavg: str, slower: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "LOAD", tmp_path / "loadavg")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    (tmp_path / "loadavg").write_text(loadavg)
    assert patience.slowdown() == slower
    assert patience.stretched(4.0) == 4.0 * slower


def test_where_the_load_cannot_be_read_the_clock_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LOAD", tmp_path / "none")
    assert patience.slowdown() == 1.0


def test_a_second_counts_as_the_part_of_it_that_the_machine_gave() -> None:
    now, slow = [100.0], [1.0]
    waiting = Patience(10, slowed=lambda: slow[0], clock=lambda: now[0])
    said = []
    for passed, slower in ((9, 1.0), (5, 8.0), (3, 8.0), (1, 1.0)):  # 9 + 0.625 + 0.375 are 10: not more than 10 yet
        now[0] += passed
        slow[0] = slower
        said.append(waiting.exhausted())
    assert said == [False, False, False, True]
    assert str(waiting) == "18 s (10 s of an idle machine)"


def test_on_an_idle_machine_it_is_an_ordinary_deadline() -> None:
    now = [0.0]
    waiting = Patience(10, slowed=lambda: 1.0, clock=lambda: now[0])
    now[0] = 10.1
    assert waiting.exhausted()
    assert str(waiting) == "10 s"
