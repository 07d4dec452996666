"""The agent's HTTP server: over TLS, renewed certificates, and clients that are slow, many, or speak something else."""

import http.client
import socket
import ssl
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from cotenant.serving.certificate import ServingCertificate
from cotenant_agent import http_server
from cotenant_agent.http_server import CONNECTIONS_MAX, Answer
from tests.support.certificates import write_certificate

Serve = Callable[..., ThreadingHTTPServer]
HELLO = {"/hello": lambda header: Answer(200, f"hello {header}".encode())}


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[ThreadingHTTPServer] = []

    def start(certificate: ServingCertificate | None = None) -> ThreadingHTTPServer:
        servers.append(http_server.serve(("127.0.0.1", 0), HELLO, certificate))
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def get(server: ThreadingHTTPServer, path: str = "/hello", trust: Path | None = None) -> tuple[int, str]:
    port = server.server_port
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        if trust is None
        else http.client.HTTPSConnection(
            "localhost", port, timeout=10, context=ssl.create_default_context(cafile=str(trust / "tls.crt"))
        )
    )
    connection.request("GET", path, headers={"Authorization": "Bearer me"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_a_path_is_answered_with_the_header_that_it_was_asked_with(serve: Serve) -> None:
    server = serve()
    assert (get(server), get(server, "/")) == ((200, "hello Bearer me"), (404, "/hello\n"))


def test_over_tls_with_the_certificate_of_the_folder(serve: Serve, tmp_path: Path) -> None:
    write_certificate(tmp_path, "localhost")
    server = serve(ServingCertificate(tmp_path))
    assert get(server, trust=tmp_path) == (200, "hello Bearer me")


def test_without_tls_a_tls_server_says_nothing(serve: Serve, tmp_path: Path) -> None:
    write_certificate(tmp_path, "localhost")
    server = serve(ServingCertificate(tmp_path))
    with pytest.raises((http.client.HTTPException, OSError)):
        get(server)
    assert get(server, trust=tmp_path) == (200, "hello Bearer me"), "and goes on"


def test_a_renewed_certificate_is_shown_without_a_restart(serve: Serve, tmp_path: Path) -> None:
    write_certificate(tmp_path, "localhost")
    server = serve(ServingCertificate(tmp_path))
    before = ssl.get_server_certificate(("127.0.0.1", server.server_port))
    write_certificate(tmp_path, "localhost")
    after = ssl.get_server_certificate(("127.0.0.1", server.server_port))
    assert (before == after, get(server, trust=tmp_path)) == (False, (200, "hello Bearer me"))


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
def test_silent_connections_hold_up_nobody_however_many(serve: Serve, tmp_path: Path, secure: bool) -> None:
    write_certificate(tmp_path, "localhost")
    server = serve(ServingCertificate(tmp_path) if secure else None)
    silent = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(3 * CONNECTIONS_MAX)]
    try:
        assert get(server, trust=tmp_path if secure else None) == (200, "hello Bearer me")
        silent[0].settimeout(10)
        assert silent[0].recv(1) == b"", "the oldest is cut off"
    finally:
        for one in silent:
            one.close()
