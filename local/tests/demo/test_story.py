"""The demo's end: its promises, and a picture worth taking."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cotenant_local.demo import story
from cotenant_local.demo.scenes import Scene, scene_of
from local.tests.demo.documents import job, node


def test_the_demo_breaks_its_word_when_a_job_fails_or_learns_too_little() -> None:
    good: dict[str, Any] = {"results": {"test_accuracy": 0.97}}
    kept = [job(str(number), "Succeeded", age=number, **good) for number in range(3)]
    assert story.promises_broken(scene_of([], kept)) == []
    poor = [*kept[:2], job("2", "Succeeded", age=2, results={"test_accuracy": 0.5})]
    assert story.promises_broken(scene_of([], poor)) == ["team-a/2: test accuracy 0.5, promised at least 0.95"]
    failed = [*kept[:2], job("2", "Failed", age=2, message="exit 3")]
    assert story.promises_broken(scene_of([], failed)) == ["team-a/2 is Failed: exit 3"]


HALF = {"step": 50, "of": 100}


def shared(*, waiting: bool) -> Scene:
    jobs = [job(name, "Running", uuids=("a",), progress={"step": 20, "of": 100}) for name in ("one", "two")]
    reason = {"reason": "WaitingForGPUs", "message": "needs 0.4"}
    third = job("three", "Pending", pending=reason) if waiting else job("three", "Succeeded")
    return scene_of([node("a", "b")], [*jobs, third])


def test_a_picture_is_taken_when_two_jobs_run_side_by_side_and_one_waits() -> None:
    assert story.worth_a_picture(shared(waiting=True))
    assert not story.worth_a_picture(shared(waiting=False))
    still_starting = [job("two", "Running", uuids=("a",)), job("one", "Running", uuids=("a",), progress=HALF)]
    waiting = job("three", "Pending", pending={"reason": "WaitingForGPUs", "message": "needs 0.4"})
    assert not story.worth_a_picture(scene_of([node("a")], [*still_starting, waiting]))
    apart = [job(name, "Running", uuids=(name,), progress={"step": 20, "of": 100}) for name in ("a", "b")]
    assert not story.side_by_side(scene_of([node("a", "b")], apart))


def test_a_picture_fetches_nothing_when_it_is_opened(tmp_path: Path) -> None:
    story.picture(shared(waiting=True), tmp_path / "docs" / "demo.svg")
    drawn = (tmp_path / "docs" / "demo.svg").read_text()
    assert ("<svg" in drawn, "@font-face" in drawn) == (True, False)


class PlayedCluster:
    """A cluster whose scenes are given, one for each look; the last one stays."""

    def __init__(self, *scenes: Scene) -> None:
        self.scenes = list(scenes)
        self.described: list[str] = []

    def scene(self) -> Scene:
        return self.scenes.pop(0) if len(self.scenes) > 1 else self.scenes[0]

    def describe(self, name: str) -> str:
        self.described.append(name)
        return f"why {name} waits"


def test_the_first_wait_is_explained_once_and_the_end_is_the_last_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    over = scene_of([node("a")], [job("one", "Succeeded")])
    cluster: Any = PlayedCluster(shared(waiting=True), shared(waiting=True), over)
    assert story.watch(cluster, Console(quiet=True), None) == over
    assert cluster.described == ["team-a/three"]


def test_a_demo_that_does_not_end_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "DEADLINE_S", -1)
    cluster: Any = PlayedCluster(shared(waiting=True))
    with pytest.raises(story.StepError, match="not all jobs ended within -1 s"):
        story.watch(cluster, Console(quiet=True), None)
