"""A bucket of S3, as a job reaches MinIO: by variables alone."""

from collections.abc import Iterator

import pytest

from tests.worker.object_stores import s3_server


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server.s3_server() as address:
        yield address


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Address of the server, with one empty bucket: `s3://runs`."""
    for name, value in s3_server.environment(server).items():
        monkeypatch.setenv(name, value)
    s3_server.emptied(server)
    return server
