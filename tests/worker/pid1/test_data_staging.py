"""Data is there before the first rank starts, the wait is seen, and what goes wrong is the pod's end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cotenant.contract import Contract, DataSource
from tests.support.pod_sandbox import until
from tests.worker.processes import behave, launched


class Store(BaseHTTPRequestHandler):
    """Two files: `/whole` is 1,000 bytes, and of the 1,000 bytes of `/slow` the last ones come when they may."""

    released: threading.Event

    def do_HEAD(self) -> None:
        self._head()

    def do_GET(self) -> None:
        self._head()
        self.wfile.write(b"x" * 900)
        self.wfile.flush()
        if self.path == "/slow":
            self.released.wait(60)
        with contextlib.suppress(OSError):
            self.wfile.write(b"y" * 100)

    def _head(self) -> None:
        self.send_response(200 if self.path in ("/whole", "/slow") else 404)
        self.send_header("Content-Length", "1000")
        self.send_header("Last-Modified", "Tue, 24 Nov 2026 00:00:00 GMT")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def released() -> threading.Event:
    return threading.Event()


@pytest.fixture
def store(released: threading.Event) -> Iterator[str]:
    handler = type("Released", (Store,), {"released": released})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        released.set()
        server.shutdown()


def job(address: str, folder: Path) -> Contract:
    shows = 'import os; print("found", sorted(os.listdir(os.environ["COTENANT_DATA_DIR"])))'
    return replace(behave(), command=("python", "-c", shows), data=(DataSource(address, str(folder)),))


def test_the_ranks_start_when_the_data_is_there(tmp_path: Path, store: str, released: threading.Event) -> None:
    folder = tmp_path / "data"
    with launched(tmp_path, job(f"{store}/slow", folder).to_json()) as pod:
        until(lambda: pod.progress().staging_bytes == 1000, 60, "it has begun")
        waiting = pod.progress()
        assert (waiting.state, waiting.staged_bytes) == ("staging", 0)
        assert not (folder / "slow").exists()
        released.set()
        code, log, _ = pod.finish()
    assert code == 0, log
    assert "found ['.cotenant-lock', '.cotenant-staged.jsonl', 'slow']" in log
    assert "data staged: 1000 bytes in " in log


def test_sigterm_while_data_comes_ends_the_pod_at_once(tmp_path: Path, store: str) -> None:
    with launched(tmp_path, job(f"{store}/slow", tmp_path / "data").to_json()) as pod:
        until(lambda: pod.progress().staging_bytes == 1000, 60, "it has begun")
        pod.process.send_signal(signal.SIGTERM)
        code, log, termination = pod.finish()
    assert (code, termination.reason) == (143, "Preempted"), log
    assert "found" not in log


@pytest.mark.parametrize(
    ("path", "folder", "reason"),
    [
        ("none", "data", "DataNotFound"),
        ("whole", "termination/data", "DataNotWritable"),
    ],
)
def test_what_another_attempt_cannot_mend_ends_the_job(
    tmp_path: Path, store: str, path: str, folder: str, reason: str
) -> None:
    with launched(tmp_path, job(f"{store}/{path}", tmp_path / folder).to_json()) as pod:
        ended, log, termination = pod.finish()
    assert (ended, termination.code, termination.reason) == (84, 84, reason), log
    assert "found" not in log


def test_a_process_that_dies_is_worth_another_attempt(tmp_path: Path, store: str) -> None:
    (tmp_path / "site" / "obstore").mkdir(parents=True)
    (tmp_path / "site" / "obstore" / "__init__.py").write_text("raise SystemExit(9)")
    contract = job(f"{store}/whole", tmp_path / "data")
    with launched(tmp_path, contract.to_json(), PYTHONPATH=str(tmp_path / "site")) as pod:
        ended, log, termination = pod.finish()
    assert (ended, termination.reason) == (85, "DataStagingDied"), log
    assert termination.message == "the process that stages the data ended with 9"


def test_an_image_without_the_package_is_told_what_to_install(tmp_path: Path, store: str) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "obstore.py").write_text("raise ModuleNotFoundError(\"No module named 'obstore'\")")
    contract = job(f"{store}/whole", tmp_path / "data")
    with launched(tmp_path, contract.to_json(), PYTHONPATH=str(tmp_path / "site")) as pod:
        ended, log, termination = pod.finish()
    assert (ended, termination.reason) == (84, "DataMisconfigured"), log
    assert "pip install obstore" in termination.message
