"""The page that Prometheus reads, and the paths of a pod's endpoint."""

import json
import urllib.error
from pathlib import Path

import pytest

from cotenant_worker.progress.http_endpoint import metrics_page
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.supervision.rank_reports import MemoryPeak, StepReport
from tests.support.pod_sandbox import until
from tests.worker.processes import behave, launched


def report(board: ProgressBoard, rank: int, step: int, at: float, **metrics: float) -> None:
    board.record(StepReport(rank, step, of=100, metrics=metrics, at_monotonic_s=at), at)


def test_prometheus_reads_the_page() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    board = ProgressBoard()
    report(board, 0, 7, 1.0, **{'odd"name\\': 0.5})
    board.record(MemoryPeak(0, 5), 1.0)
    board.mark("ranks started", 1.25)
    page = metrics_page(board, {"job": "a", "namespace": "b"})
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    own = (("job", "a"), ("namespace", "b"))
    assert samples["cotenant_worker_step", own] == 7
    assert samples["cotenant_worker_training_metric", (*own[:1], ("name", 'odd"name\\'), *own[1:])] == 0.5
    assert samples["cotenant_worker_startup_seconds", (*own, ("phase", "ranks started"))] == 1.25


def test_a_lost_metric_is_on_the_page_as_what_it_became() -> None:
    board = ProgressBoard()
    report(board, 0, 7, 1.0, loss=float("nan"), norm=float("inf"), accuracy=0.5)
    report(board, 1, 7, 1.0, loss=0.5)  # the mean of the others would hide it
    lines = metrics_page(board, {"job": "a"}).splitlines()
    assert [line for line in lines if "training_metric{" in line] == [
        'cotenant_worker_training_metric{job="a",name="accuracy"} 0.5',
        'cotenant_worker_training_metric{job="a",name="loss"} NaN',
        'cotenant_worker_training_metric{job="a",name="norm"} +Inf',
    ]


def test_health_progress_and_metrics_are_answered_and_nothing_else(tmp_path: Path) -> None:
    with launched(tmp_path, behave("ignore", grace_s=1).to_json()) as pod:
        until(lambda: pod.get("/healthz") == "ok\n", 60, "health")
        assert json.loads(pod.get("/progress"))["collective"] == "gloo"
        assert pod.get("/metrics").startswith("# HELP cotenant_worker_step ")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            pod.get("/etc/passwd")
