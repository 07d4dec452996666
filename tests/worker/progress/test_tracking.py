"""Tracking of a job: which pod feeds the sinks, and that nothing a sink does reaches the job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cotenant_worker.host.background_tasks import BackgroundTasks
from cotenant_worker.progress import sinks, tracking
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.progress.tracking import SinkThread, Tracking
from cotenant_worker.supervision.rank_reports import StepReport
from tests.support.pod_sandbox import contract


class PlayedSink:
    """Keeps what it is given; `act` is what writing or closing does besides."""

    def __init__(self, name: str, act: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self.act = act
        self.calls: list[Any] = []

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self.calls.append((step, dict(metrics)))
        self.act()

    def close(self, succeeded: bool) -> None:
        self.calls.append(succeeded)
        self.act()


def failing(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def started(
    monkeypatch: pytest.MonkeyPatch, *found: PlayedSink, node_rank: int = 0, **platform: Any
) -> tuple[Tracking, BackgroundTasks]:
    monkeypatch.setattr(sinks, "sinks_of", lambda _job: list(found))
    board = ProgressBoard()
    board.record(StepReport(0, 7, metrics={"loss": 0.5}, at_monotonic_s=1.0), 1.0)
    one = Tracking(contract([1, 1], node_rank=node_rank, platform=platform), board)
    tasks = BackgroundTasks(pytest.fail)
    one.start(tasks)
    return one, tasks


@pytest.mark.parametrize(
    ("node_rank", "platform", "fed"),
    [
        pytest.param(0, {"tracking": {"mlflow": {}}}, 1, id="rank 0's pod"),
        pytest.param(1, {"tracking": {"mlflow": {}}}, 0, id="another pod"),
        pytest.param(0, {}, 0, id="a job that asks for none"),
    ],
)
async def test_rank_0s_pod_feeds_the_sinks_where_the_job_asks_for_one(
    monkeypatch: pytest.MonkeyPatch, node_rank: int, platform: dict[str, Any], fed: int
) -> None:
    sink = PlayedSink("MLflow")
    one, tasks = started(monkeypatch, sink, node_rank=node_rank, **platform)
    assert len(tasks._running) == fed
    tasks.cancel()
    await one.close(succeeded=True)
    assert sink.calls == [(7, {"loss": 0.5}), True] * fed


@pytest.mark.parametrize(
    "error",
    [OSError("refused"), ValueError("no JSON"), KeyError("run"), TypeError("a list"), RuntimeError("anything")],
    ids=lambda error: type(error).__name__,
)
async def test_every_sink_gets_the_last_step_and_the_end_whatever_another_one_raises(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    first, second = PlayedSink("TensorBoard", failing(error)), PlayedSink("MLflow")
    one, tasks = started(monkeypatch, first, second, tracking={"mlflow": {}})
    tasks.cancel()
    await one.close(succeeded=False)
    assert (first.calls, second.calls) == ([(7, {"loss": 0.5}), False],) * 2


async def test_a_server_that_hangs_at_the_end_is_a_warning_after_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracking, "CLOSE_S", 0.05)
    release = threading.Event()

    def hang() -> None:
        release.wait(30)

    sink = PlayedSink("MLflow", hang)
    one, tasks = started(monkeypatch, sink, tracking={"mlflow": {}})
    tasks.cancel()
    await one.close(succeeded=True)
    release.set()
    assert one.board.progress().warnings == (
        "tracking did not end within 0.05 s: the last metrics may be missing there",
    )


def test_a_sink_that_fails_is_tried_again_after_a_pause_and_its_warning_is_taken_back() -> None:
    warnings: list[tuple[str, str]] = []
    times = iter([0.0, 1.0, 10.0, 40.0])  # of each look at the clock: a write, its failure, a pause, a write again
    answers = iter([OSError("no route"), None, None])

    def act() -> None:
        if (error := next(answers)) is not None:
            raise error

    sink = PlayedSink("MLflow", act)
    thread = SinkThread([sink], lambda key, text: warnings.append((key, text)), clock=lambda: next(times))
    for step in (1, 2, 3):
        thread.offer(step, {"loss": 1.0})
    thread.end(True)
    thread.run()
    assert [call if isinstance(call, bool) else call[0] for call in sink.calls] == [1, 3, True]
    assert warnings == [
        ("sink-MLflow", "MLflow failed, and is tried again every 30 s: OSError: no route"),
        ("sink-MLflow", ""),
    ]
