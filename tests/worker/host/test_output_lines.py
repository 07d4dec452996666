"""Lines of several ranks in one log: whole, and in time."""

from __future__ import annotations

import pytest

from cotenant_worker.host.output_lines import MAX_UNENDED_BYTES, UNENDED_S, PrefixedLines

LATE = UNENDED_S


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        pytest.param([(0, "one\ntwo\n")], ["one", "two"], id="whole lines"),
        pytest.param([(0, "lo"), (1, "ss 1\n")], ["loss 1"], id="a line in two pieces"),
        pytest.param([(0, "lo"), (1, "ss 1\nlo"), (LATE, "ss 2\n")], ["loss 1", "loss 2"], id="each line has its time"),
        pytest.param(
            [(0, "loading … "), (LATE, "")], ["loading … "], id="a program that stops in the middle of a line"
        ),
        pytest.param([(0, "loading … "), (LATE, ""), (9, "done\n")], ["loading … ", "done"], id="and goes on"),
        pytest.param([(0, "loading …"), (LATE, ""), (9, "\nok\n")], ["loading …", "ok"], id="and only ends it"),
        pytest.param(
            [(0, "\r 1 %"), (3, "\r 2 %"), (LATE, "\r 3 %"), (6, "\r 4 %"), (2 * LATE, "\r 5 %"), (11, "\r 6 %\n")],
            [" 3 %", "\r 4 %\r 5 %\r 6 %"],
            id="a progress bar, as it stands",
        ),
        pytest.param(
            [(0, "\r 1 %"), (LATE, "\r 2 %\r"), (99, "\r 3 %\r")], [" 2 %"], id="a bar that ends with a return"
        ),
        pytest.param([(0, "\r\r"), (LATE, "")], [], id="nothing to see"),
        pytest.param([(0, "x" * MAX_UNENDED_BYTES), (0, "y")], ["x" * MAX_UNENDED_BYTES + "y"], id="too long to hold"),
        pytest.param([(0, ""), (LATE, "")], [], id="no output"),
    ],
)
def test_a_line_that_does_not_end_is_shown_as_it_stands(pieces: list[tuple[float, str]], shown: list[str]) -> None:
    lines = PrefixedLines(b"[rank 1] ")
    found = b"".join(lines.add(piece.encode(), now) for now, piece in pieces)
    assert found.decode().split("\n") == [*(f"[rank 1] {line}" for line in shown), ""]


def test_what_is_left_at_the_end_is_a_line() -> None:
    lines = PrefixedLines(b"[rank 1] ")
    assert (lines.add(b"one\ntw", 0), lines.end(), lines.end()) == (b"[rank 1] one\n", b"[rank 1] tw\n", b"")


def test_a_line_that_has_not_ended_is_waited_for_no_longer_than_it_may_take() -> None:
    lines = PrefixedLines(b"")
    assert lines.timeout_s(0) is None
    lines.add(b"lo", 1)
    assert (lines.timeout_s(2), lines.timeout_s(99)) == (UNENDED_S - 1, 0)
    lines.add(b"ss\n", 3)
    assert lines.timeout_s(4) is None
