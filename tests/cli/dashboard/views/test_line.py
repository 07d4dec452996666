"""The line: in the order of the places, filtered."""

from __future__ import annotations

import pytest

from cotenant.dashboard.reading.rows import JobRow
from cotenant.dashboard.views.line import line_view
from cotenant.dashboard.views.wish import Wish


def row(name: str, phase: str = "Pending", **more: object) -> JobRow:
    return JobRow(namespace="red", name=name, phase=phase, queue="a", **more)  # type: ignore[arg-type]


def test_the_line_is_in_the_order_of_the_places_and_who_has_none_comes_last() -> None:
    jobs = [row("c"), row("b", position=2), row("d", created=-1.0), row("a", position=1), row("r", "Running")]
    view = line_view(jobs, Wish())
    assert [job.name for job in view.jobs.items] == ["a", "b", "d", "c"]
    assert view.counts == {"waiting": 4, "running": 1, "finished": 0, "held": 0}


@pytest.mark.parametrize(
    ("wish", "names"),
    [
        (Wish(text="wait"), ["b"]),
        (Wish(text="red/a"), ["a"]),
        (Wish(queue="other"), []),
        (Wish(show="running"), ["r"]),
        (Wish(show="nonsense"), ["a", "b"]),
    ],
)
def test_a_line_is_filtered(wish: Wish, names: list[str]) -> None:
    jobs = [row("a"), row("b", reason="WaitingForQuota"), row("r", "Running")]
    assert [job.name for job in line_view(jobs, wish).jobs.items] == names
