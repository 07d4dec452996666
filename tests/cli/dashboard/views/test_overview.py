"""The overview: sums of all GPUs and jobs, a bounded wall, and the head of the line."""

from __future__ import annotations

from cotenant.dashboard.reading.rows import GpuNodeRow, JobRow
from cotenant.dashboard.views.overview import NODES, ROWS, overview_view
from cotenant.dashboard.views.tenants import Palette
from cotenant.dashboard.views.wish import Wish
from tests.cli.dashboard.views.test_wall import gpu, placed


def test_figures_are_of_everything_and_what_is_shown_is_bounded() -> None:
    nodes = [GpuNodeRow(name=f"n{at:03}", gpus=(gpu(f"g{at}", healthy=at > 0),)) for at in range(NODES + 5)]
    waiting = [JobRow(namespace="red", name=f"w{at:02}", position=at + 1, reason="R") for at in range(ROWS + 3)]
    running = JobRow(namespace="red", name="r", phase="Running", shares=placed("r", ("g1", 1000, 1000)).shares)
    view = overview_view(nodes, [*waiting, running], Wish(show="ill", page=2), Palette())
    assert dict(view.figures) == {
        "GPUs": NODES + 5, "Idle GPUs": NODES + 3, "Ill GPUs": 1, "Jobs that run": 1, "Jobs that wait": ROWS + 3,
    }  # fmt: skip
    assert [node.name for node in view.wall.nodes.items] == [f"n{at:03}" for at in range(NODES)]
    assert [job.name for job in view.waiting] == [f"w{at:02}" for at in range(ROWS)]
    assert (view.more, view.reasons) == (3, (("R", ROWS + 3),))


def test_a_filter_of_text_holds_for_nodes_and_jobs() -> None:
    nodes = [GpuNodeRow(name="blue-1", gpus=(gpu("a"),)), GpuNodeRow(name="red-1", gpus=(gpu("b"),))]
    jobs = [JobRow(namespace="blue", name="one"), JobRow(namespace="red", name="two")]
    view = overview_view(nodes, jobs, Wish(text="blue"), Palette())
    assert [node.name for node in view.wall.nodes.items] == ["blue-1"]
    assert [job.key for job in view.waiting] == ["blue/one"]


def test_who_may_not_read_nodes_gets_no_figures_of_gpus_that_nobody_showed_them() -> None:
    running = JobRow(namespace="red", name="r", phase="Running", shares=placed("r", ("g1", 1000, 1000)).shares)
    view = overview_view([], [running], Wish(), Palette())
    assert view.figures == (("GPUs of these jobs", 1), ("Jobs that run", 1), ("Jobs that wait", 0))
