"""A moment of the demo: who holds which part of a GPU."""

from cotenant_local.demo.scenes import HeldShare, scene_of
from local.tests.demo.documents import job, node


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
