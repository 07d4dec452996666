"""Inputs: API documents as `kubectl get -o json` returns them. Outputs: what the demo shows. No cluster needed."""

from typing import Any

from rich.console import Console

from cotenant_local.demo import story, view
from cotenant_local.demo.scenes import HeldShare, Scene, scene_of

GPU = {"index": 0, "class": "H100", "memoryMiB": 81920, "healthy": True}


def node(*uuids: str) -> dict[str, Any]:
    gpus = [{**GPU, "uuid": uuid, "index": index} for index, uuid in enumerate(uuids)]
    return {"metadata": {"name": "node-0"}, "status": {"simulated": True, "gpus": gpus}}


def job(name: str, phase: str, *, uuids: tuple[str, ...] = (), age: int = 0, **status: Any) -> dict[str, Any]:
    ranks = [
        {"rank": rank, "gpus": [{"uuid": uuid, "memoryMiB": 32768, "computeMilli": 400}]}
        for rank, uuid in enumerate(uuids)
    ]
    placement = {"nodes": [{"node": "node-0", "ranks": ranks}]} if uuids else None
    return {
        "metadata": {"namespace": "team-a", "name": name, "creationTimestamp": f"2026-01-01T00:00:{age:02d}Z"},
        "spec": {"queue": "team-a", "workers": 2, "gpu": {"memoryFraction": "0.4"}},
        "status": {"phase": phase, "placement": placement, **status},
    }


def test_a_gpu_shows_who_holds_which_part_of_it_and_what_is_free() -> None:
    scene = scene_of(
        [node("a", "b")], [job("one", "Running", uuids=("a", "b")), job("two", "Running", uuids=("a", "b"))]
    )
    first = scene.gpus[0]
    assert first.held == (HeldShare("team-a/one", 0, 32768), HeldShare("team-a/two", 0, 32768))
    assert first.free_mib == 81920 - 2 * 32768
    assert scene.overcommitted == ()


def test_a_gpu_that_is_promised_twice_is_seen() -> None:
    jobs = [job(str(number), "Running", uuids=("a",), age=number) for number in range(3)]
    assert [gpu.uuid for gpu in scene_of([node("a")], jobs).overcommitted] == ["a"]


def test_a_finished_job_holds_nothing_even_while_its_status_still_tells_where_it_ran() -> None:
    assert scene_of([node("a")], [job("one", "Succeeded", uuids=("a",))]).gpus[0].held == ()


def test_without_a_terminal_each_move_is_one_line_and_a_quiet_cluster_is_silent() -> None:
    waiting = job("one", "Pending", pending={"reason": "WaitingForGPUs", "message": "needs 0.4"})
    before = scene_of([node("a")], [waiting])
    after = scene_of([node("a")], [job("one", "Running", uuids=("a",))])
    assert view.changes(None, before) == ["team-a/one: Pending – WaitingForGPUs: needs 0.4"]
    assert view.changes(before, after) == ["team-a/one: Running"]
    assert view.changes(after, after) == []


def test_the_demo_breaks_its_word_when_a_job_fails_or_learns_too_little() -> None:
    good: dict[str, Any] = {"results": {"test_accuracy": 0.97}}
    kept = [job(str(number), "Succeeded", age=number, **good) for number in range(3)]
    assert story.promises_broken(scene_of([], kept)) == []
    poor = [*kept[:2], job("2", "Succeeded", age=2, results={"test_accuracy": 0.5})]
    assert story.promises_broken(scene_of([], poor)) == ["team-a/2: test accuracy 0.5, promised at least 0.95"]
    failed = [*kept[:2], job("2", "Failed", age=2, message="exit 3")]
    assert story.promises_broken(scene_of([], failed)) == ["team-a/2 is Failed: exit 3"]


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
