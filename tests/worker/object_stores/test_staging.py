"""Data of a job is in its folders, whole, or there is a reason that its tenant can act on."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import obstore
import pytest

from cotenant.contract import DataSource
from cotenant_worker.object_stores import object_store, staging
from cotenant_worker.object_stores.staged_folder import JOURNAL
from cotenant_worker.object_stores.staging_errors import StagingError
from cotenant_worker.object_stores.staging_reports import StagingReport
from tests.worker.object_stores import s3_server


def staged(*sources: DataSource, retry_s: float = 1.0) -> list[StagingReport]:
    """Stage the data; returns the reports."""
    told: list[StagingReport] = []
    staging.stage(sources, told.append, retry_s=retry_s, sleep=lambda _: None)
    return told


def refused(*sources: DataSource) -> tuple[str, str, bool]:
    with pytest.raises(StagingError) as error:
        staged(*sources)
    return error.value.reason, error.value.message, error.value.retriable


def files(folder: Path) -> dict[str, bytes]:
    """All files but our own, by their path."""
    found = (path for path in folder.rglob("*") if path.is_file())
    own = {JOURNAL, ".cotenant-lock"}
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if path.name not in own}


def test_a_web_server_gives_a_file(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "set.tar").write_bytes(b"x" * 100_000)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{web.server_port}"
        staged(DataSource(f"{address}/set.tar", str(tmp_path / "data")))
        absent = refused(DataSource(f"{address}/none.tar", str(tmp_path / "data")))
        web.shutdown()
    assert files(tmp_path / "data") == {"set.tar": b"x" * 100_000}
    assert absent == ("DataNotFound", f"there is nothing at {address}/none.tar; correct spec.data[].from", False)


def test_a_store_that_does_not_answer_is_worth_another_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    reason, message, retriable = refused(DataSource("s3://runs/one", str(tmp_path)))
    assert (reason, retriable) == ("DataUnreachable", True)
    assert message.startswith("the store of s3://runs/one does not answer: ")
    assert message.endswith("the network of jobs may be closed to it")


def test_no_answer_to_one_request_is_not_taken_for_the_time_of_a_whole_object() -> None:
    """obstore's own bound is 30 s for all of an answer."""
    store = object_store.ObjectStore("s3://runs/set")
    options = store._store.client_options
    assert (options["timeout"], options["read_timeout"]) == ("24h", "60s")
    assert isinstance(store._store, obstore.store.S3Store)
