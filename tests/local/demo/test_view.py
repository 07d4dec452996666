"""What the demo shows, on a screen and without one."""

from rich.console import Console

from cotenant_local.demo import view
from cotenant_local.demo.scenes import Scene, scene_of
from tests.local.demo.documents import job, node


def test_without_a_terminal_each_move_is_one_line_and_a_quiet_cluster_is_silent() -> None:
    waiting = job("one", "Pending", pending={"reason": "WaitingForGPUs", "message": "needs 0.4"})
    before = scene_of([node("a")], [waiting])
    after = scene_of([node("a")], [job("one", "Running", uuids=("a",))])
    assert view.changes(None, before) == ["team-a/one: Pending – WaitingForGPUs: needs 0.4"]
    assert view.changes(before, after) == ["team-a/one: Running"]
    assert view.changes(after, after) == []


def drawn(scene: Scene) -> str:
    console = Console(width=140, record=True, quiet=False, file=open("/dev/null", "w", encoding="utf-8"))  # noqa: SIM115
    console.print(view.frame(scene, "TrainingJobs"))
    console.print(view.summary(scene))
    return console.export_text()


def test_the_screen_names_jobs_shares_reasons_and_says_that_gpus_are_simulated() -> None:
    waiting = job("two", "Pending", age=1, pending={"reason": "WaitingForGPUs", "message": "needs 0.4"})
    text = drawn(scene_of([node("a")], [job("one", "Running", uuids=("a",)), waiting]))
    for expected in ("simulated", "one rank 0", "48 of 80 GiB free", "WaitingForGPUs: needs 0.4", "0.4 GPU"):
        assert expected in text
