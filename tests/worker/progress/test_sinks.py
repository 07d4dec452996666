"""Metrics in TensorBoard's files and on an MLflow server."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from cotenant.contract import CheckpointSpec
from cotenant_worker.progress import sinks
from tests.support.pod_sandbox import contract


def test_the_checksum_is_castagnoli() -> None:
    assert sinks.crc32c(b"123456789") == 0xE3069283


def test_an_event_file_has_one_record_per_step(tmp_path: Path) -> None:
    board = sinks.TensorBoard(tmp_path)
    board.write(300, {"loss": 0.5})
    board.close(True)
    [path] = tmp_path.iterdir()
    data, records = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        body = data[12 : 12 + length]
        assert data[: 16 + length] == sinks.record(body)
        records.append(body)
        data = data[16 + length :]
    assert records[0].endswith(b"\x1a\x0dbrain.Event:2")
    # After the wall time: step 300 as a varint, then summary { value { tag: "loss", simple_value: 0.5 } }.
    assert records[1][9:] == b"\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15" + struct.pack("<f", 0.5)


@pytest.fixture
def mlflow() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    calls: list[tuple[str, Any]] = []

    class Server(BaseHTTPRequestHandler):
        def answer(self, body: Any) -> None:
            path = self.path.removeprefix("/api/2.0/mlflow/")
            calls.append((path, body))
            known = {"experiments/create": {"experiment_id": "7"}, "runs/create": {"run": {"info": {"run_id": "r"}}}}
            self.send_response(404 if path.startswith("experiments/get") else 200)
            self.end_headers()
            self.wfile.write(json.dumps([] if body == [] else known.get(path, {})).encode())

        def do_GET(self) -> None:
            self.answer(None)

        def do_POST(self) -> None:
            self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", calls
    server.shutdown()
    server.server_close()


def test_a_run_is_made_fed_and_ended(mlflow: tuple[str, list[tuple[str, Any]]]) -> None:
    address, calls = mlflow
    flow = sinks.MLflow(address, "team a", "job-1")
    flow.write(5, {"loss": 0.5})
    flow.close(True)
    assert [path for path, _ in calls] == [
        "experiments/get-by-name?experiment_name=team+a",
        "experiments/create",
        "runs/create",
        "runs/log-batch",
        "runs/update",
    ]
    [row] = calls[3][1]["metrics"]
    assert (row["key"], row["value"], row["step"]) == ("loss", 0.5, 5)
    assert calls[4][1]["status"] == "FINISHED"


def test_an_answer_that_is_no_json_object_is_an_error_of_its_own(mlflow: tuple[str, list[tuple[str, Any]]]) -> None:
    with pytest.raises(ValueError, match="runs/create: the answer is no JSON object"):
        sinks.MLflow(mlflow[0], "e", "r")._call("runs/create", [])  # type: ignore[arg-type] # the server of this test answers it with a list


def test_the_job_says_where_its_metrics_go() -> None:
    tracking = {"tensorBoard": {"path": "tb"}, "mlflow": {"trackingUri": "http://flow:5000"}}
    job = contract([1], platform={"tracking": tracking}, checkpoint=CheckpointSpec("/checkpoints/job"))
    board, flow = sinks.sinks_of(job)
    assert isinstance(board, sinks.TensorBoard)
    assert isinstance(flow, sinks.MLflow)
    assert (board.directory, flow.experiment, flow.run) == (Path("/checkpoints/job/tb/job"), "team", "job-1")
    assert sinks.sinks_of(replace(job, platform={})) == []
