"""The way out of a pod's ranks: the notice that they read, what the conductor learns, and the verdict."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.host import layout
from cotenant_worker.pid1.preemption import Preemption
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.supervision.commands import Finish
from cotenant_worker.supervision.messages import PodEvent, SafePoints
from tests.support.pod_sandbox import contract


class Made:
    """A preemption over ranks that are only played."""

    def __init__(self, **fields: Any) -> None:
        self.events: list[PodEvent] = []
        self.board = ProgressBoard()
        self.running: dict[int, Any] = {}
        ranks: Any = SimpleNamespace(
            terminate=lambda: {0: 7, 1: 9}, running=self.running, wait_until_gone=self.wait, kill=self.wait
        )
        job = contract([2], command=("x",), **fields)
        self.preemption = Preemption(job, ranks, SimpleNamespace(drain=self.wait), self.board, self.events.append)  # type: ignore[arg-type]

    async def wait(self, _: float) -> None:
        pass


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(layout.ENV_STATE, str(tmp_path))
    return tmp_path


def test_ranks_find_a_notice_with_their_deadline_and_the_conductor_learns_how_far_they_are() -> None:
    made = Made(grace_s=30)
    assert made.preemption.start()
    notice = json.loads(layout.preempt_file().read_text())
    assert (notice["reason"], notice["seconds"]) == ("preempt", 25.0)
    assert (made.events, made.board.state) == ([SafePoints({0: 7, 1: 9}, 0.0)], "saving")


def test_a_pod_is_asked_to_leave_once_and_a_resize_is_no_leaving() -> None:
    made = Made()
    made.preemption.request_stop("resize")
    assert not made.preemption.started
    assert [made.preemption.start(), made.preemption.start()] == [True, False]


def test_a_notice_that_cannot_be_written_is_a_warning_and_the_ranks_are_asked_all_the_same(state: Path) -> None:
    (state / "preempt.tmp").mkdir()  # in the way
    made = Made()
    made.preemption.start()
    assert "could not be written" in made.board.warnings["preempt-file"]
    assert made.events


def test_ray_train_passes_the_notice_on_by_itself() -> None:
    made = Made(mode="rayTrain")
    made.preemption.start()
    assert made.events == []


async def test_the_verdict_names_what_is_saved_and_who_had_to_be_killed() -> None:
    made = Made(grace_s=30)
    made.running |= {1: None}
    made.board.saved_step = 40
    made.preemption.start()
    await made.preemption.wait_for_ranks()
    finish = made.preemption.as_preempted(Finish(3, "UserError", "asked to stop"))
    assert (finish.code, finish.reason) == (143, "Preempted")
    assert finish.message == (
        "asked to stop; its checkpoint of step 40 is kept; rank 1 did not leave within 25 s and had to be killed:"
        " a program is expected to heed SIGTERM or should_stop()"
    )
