"""What the demo shows, on a screen and without one."""

import pytest
from rich.cells import cell_len
from rich.console import Console

from cotenant_local.demo import view
from cotenant_local.demo.scenes import Scene, scene_of
from local.tests.demo.documents import job, node


def test_without_a_terminal_each_move_is_one_line_and_a_quiet_cluster_is_silent() -> None:
    waiting = job("one", "Pending", pending={"reason": "WaitingForGPUs", "message": "needs 0.4"})
    before = scene_of([node("a")], [waiting])
    after = scene_of([node("a")], [job("one", "Running", uuids=("a",))])
    assert view.changes(None, before) == ["team-a/one: Pending – WaitingForGPUs: needs 0.4"]
    assert view.changes(before, after) == ["team-a/one: Running"]
    assert view.changes(after, after) == []


def drawn(scene: Scene, width: int = 140) -> str:
    console = Console(width=width, record=True, quiet=False, file=open("/dev/null", "w", encoding="utf-8"))  # noqa: SIM115
    console.print(view.frame(scene, "TrainingJobs", width))
    console.print(view.summary(scene))
    return console.export_text()


def test_the_screen_names_jobs_shares_reasons_and_says_that_gpus_are_simulated() -> None:
    waiting = job("two", "Pending", age=1, pending={"reason": "WaitingForGPUs", "message": "needs 0.4"})
    text = drawn(scene_of([node("a")], [job("one", "Running", uuids=("a",)), waiting]))
    for expected in ("simulated", "one rank 0", "48 of 80 GiB free", "WaitingForGPUs: needs 0.4", "0.4 GPU"):
        assert expected in text


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_in_a_narrow_terminal_every_line_ends_at_the_edge_and_a_gpu_is_one_line(width: int) -> None:
    reason = {"reason": "WaitingForGPUs", "message": "needs 0.4 of a GPU, and none has so much of it left"}
    scene = scene_of([node("a")], [job("one", "Running", uuids=("a",)), job("two", "Pending", pending=reason)])
    framed = drawn(scene, width).split("Summary", maxsplit=1)[0].splitlines()
    assert {cell_len(line) for line in framed} == {width}
    assert len([line for line in framed if "░" in line]) == 1
    assert "WaitingForGPUs" in "".join(framed)
    assert "Pending" in "".join(framed)
