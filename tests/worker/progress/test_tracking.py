"""Tracking of a job: which pod feeds the sinks, and how they end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cotenant_worker.host.background_tasks import BackgroundTasks
from cotenant_worker.progress import sinks
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.progress.tracking import Tracking
from cotenant_worker.supervision.rank_reports import StepReport
from tests.support.pod_sandbox import contract


class PlayedSink:
    """Keeps what it is given. `refusal` is raised by its end."""

    def __init__(self, name: str, refusal: Exception | None = None) -> None:
        self.name = name
        self.refusal = refusal
        self.calls: list[Any] = []

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self.calls.append((step, dict(metrics)))

    def close(self, succeeded: bool) -> None:
        self.calls.append(succeeded)
        if self.refusal is not None:
            raise self.refusal


def tracked(
    monkeypatch: pytest.MonkeyPatch, *found: PlayedSink, node_rank: int = 0, **platform: Any
) -> tuple[Tracking, BackgroundTasks]:
    monkeypatch.setattr(sinks, "sinks_of", lambda _job: list(found))
    board = ProgressBoard()
    board.record(StepReport(0, 7, metrics={"loss": 0.5}, at_unix_s=1.0), 1.0)
    tracking = Tracking(contract([1, 1], node_rank=node_rank, platform=platform), board)
    tasks = BackgroundTasks(pytest.fail)
    tracking.start(tasks)
    return tracking, tasks


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
    tracking, tasks = tracked(monkeypatch, sink, node_rank=node_rank, **platform)
    assert len(tasks._running) == fed
    tasks.cancel()
    await tracking.close(succeeded=True)
    assert sink.calls == [(7, {"loss": 0.5}), True] * fed


@pytest.mark.parametrize("refusal", [OSError("refused"), ValueError("no JSON"), KeyError("run")])
async def test_every_sink_gets_the_last_step_and_the_end_whatever_another_one_does(
    monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    first, second = PlayedSink("TensorBoard", refusal), PlayedSink("MLflow")
    tracking, tasks = tracked(monkeypatch, first, second, tracking={"mlflow": {}})
    tasks.cancel()
    await tracking.close(succeeded=False)
    assert (first.calls, second.calls) == ([(7, {"loss": 0.5}), False],) * 2
