"""An API server behind a proxy, and one whose certificate is for another name than its address. On loopback."""

from __future__ import annotations

import json
import ssl
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_connection
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import pytest

from cotenant.cli.errors import EXIT_UNAVAILABLE, EXIT_USAGE, UserError
from cotenant.cli.terminal.connection import Connection
from cotenant.controller.client.kube import NODES, UnreachableError
from cotenant.dashboard.reading.caller_client import CallerClient
from cotenant.sdk.api_session import ApiSession
from cotenant.sdk.errors import ClusterUnreachableError
from cotenant.sdk.kubeconfig import ApiServer
from tests.support.certificates import write_certificate

NAME = "api.internal"


class _Api(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        certificate = dict(self.connection.getpeercert() or {})
        items = [self.path] if self.path != "/who" else [bool(certificate)]
        body = json.dumps({"items": items}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing goes to the terminal."""


class _Proxy(BaseHTTPRequestHandler):
    asked: list[tuple[str, str | None]]
    upstream: int

    def do_CONNECT(self) -> None:
        self.asked.append((self.path, self.headers.get("Proxy-Authorization")))
        with create_connection(("127.0.0.1", self.upstream)) as there:
            self.send_response(200)
            self.end_headers()
            self.wfile.flush()
            back = threading.Thread(target=self._copy, args=(there, self.connection))
            back.start()
            self._copy(self.connection, there)
            back.join()

    @staticmethod
    def _copy(source: Any, sink: Any) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            sink.close()

    def log_message(self, *_: Any) -> None:
        """Nothing goes to the terminal."""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[int]:
    """Port of an API server whose certificate is for `NAME`."""
    write_certificate(tmp_path, NAME)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(tmp_path / "tls.crt")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Api) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def proxy(api: int) -> Iterator[tuple[int, list[tuple[str, str | None]]]]:
    """Port of a proxy that brings everybody to `api`, and what it was asked."""
    asked: list[tuple[str, str | None]] = []
    handler = type("Handler", (_Proxy,), {"asked": asked, "upstream": api})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server.server_port, asked
        server.shutdown()


class _Socks(StreamRequestHandler):
    """A SOCKS5 proxy (RFC 1928) that brings everybody to one port. It refuses port 1."""

    asked: list[tuple[str, str]]
    upstream: int

    def handle(self) -> None:
        methods = self.rfile.read(self.rfile.read(2)[1])
        user = self._user() if 2 in methods else self._said(b"\5\0", "")
        kind = self.rfile.read(4)[3]
        host = self._text() if kind == 3 else ".".join(map(str, self.rfile.read(4)))
        port = int.from_bytes(self.rfile.read(2), "big")
        self.asked.append((f"{host}:{port}", user))
        self._said((b"\5\5" if port == 1 else b"\5\0") + b"\0\1" + bytes(6), "")
        if port != 1:
            with create_connection(("127.0.0.1", self.upstream)) as there:
                back = threading.Thread(target=_Proxy._copy, args=(there, self.connection))
                back.start()
                _Proxy._copy(self.connection, there)
                back.join()

    def _user(self) -> str:
        self._said(b"\5\2", "")
        self.rfile.read(1)
        return self._said(b"\1\0", f"{self._text()}:{self._text()}")

    def _text(self) -> str:
        return self.rfile.read(self.rfile.read(1)[0]).decode()

    def _said(self, answer: bytes, then: str) -> str:
        self.wfile.write(answer)
        return then


@pytest.fixture
def socks(api: int) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Port of a SOCKS5 proxy that brings everybody to `api`, and what it was asked."""
    asked: list[tuple[str, str]] = []
    handler = type("Handler", (_Socks,), {"asked": asked, "upstream": api})
    with ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server.server_address[1], asked
        server.shutdown()


def reached(url: str, folder: Path, **cluster: Any) -> ApiServer:
    authority = {"certificate-authority": str(folder / "tls.crt")}
    return ApiServer(url, "red", authority | {key.replace("_", "-"): value for key, value in cluster.items()}, {})


def asks(server: ApiServer) -> dict[str, Any]:
    return Connection(server, "red", timeout_s=5.0).read("/api")


def test_a_certificate_is_checked_for_the_name_that_the_kubeconfig_says(api: int, tmp_path: Path) -> None:
    url = f"https://127.0.0.1:{api}"
    assert asks(reached(url, tmp_path, tls_server_name=NAME)) == {"items": ["/api"]}
    with pytest.raises(UserError, match=r"is not reached: .*certificate") as refused:
        asks(reached(url, tmp_path))
    assert refused.value.exit_code == EXIT_UNAVAILABLE


def test_an_authority_without_key_identifiers_is_trusted_as_by_kubectl(
    api: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of EKS have none. Python 3.13 and newer are strict about it."""
    made = ssl.create_default_context

    def strict(*arguments: Any, **named: Any) -> ssl.SSLContext:
        context = made(*arguments, **named)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    assert asks(reached(f"https://127.0.0.1:{api}", tmp_path, tls_server_name=NAME)) == {"items": ["/api"]}


def test_a_certificate_that_a_plugin_gives_is_shown_at_the_first_call(api: int, tmp_path: Path) -> None:
    """A verb makes one call, and its connection is set up before its header is."""
    files = {"clientCertificateData": tmp_path / "tls.crt", "clientKeyData": tmp_path / "tls.key"}
    given = json.dumps({"status": {name: path.read_text() for name, path in files.items()}})
    server = reached(f"https://127.0.0.1:{api}", tmp_path, tls_server_name=NAME)
    assert Connection(server, "red", timeout_s=5.0).read("/who") == {"items": [False]}
    server.user = {"exec": {"command": sys.executable, "args": ["-c", f"print({given!r})"]}}
    assert Connection(server, "red", timeout_s=5.0).read("/who") == {"items": [True]}


def test_an_api_server_behind_a_proxy_is_reached_through_it(
    proxy: tuple[int, list[tuple[str, str | None]]], tmp_path: Path
) -> None:
    port, asked = proxy
    behind = reached("https://api.internal:6443", tmp_path, proxy_url=f"http://alice:secret@127.0.0.1:{port}")
    assert asks(behind) == {"items": ["/api"]}
    assert asked == [("api.internal:6443", "Basic YWxpY2U6c2VjcmV0")]


async def test_the_sdk_goes_the_same_way(proxy: tuple[int, list[tuple[str, str | None]]], tmp_path: Path) -> None:
    port, asked = proxy
    url = f"http://127.0.0.1:{port}"
    session = ApiSession(reached("https://10.0.0.1:6443", tmp_path, proxy_url=url, tls_server_name=NAME))
    try:
        assert await session.request("GET", "/api") == {"items": ["/api"]}
    finally:
        await session.close()
    assert [address for address, _ in asked] == ["10.0.0.1:6443"]


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_the_dashboard_goes_the_same_way(
    proxy: tuple[int, list[tuple[str, str | None]]],
    socks: tuple[int, list[tuple[str, str]]],
    tmp_path: Path,
    scheme: str,
) -> None:
    port, asked = proxy if scheme == "http" else socks
    url = f"{scheme}://127.0.0.1:{port}"
    client = CallerClient(reached("https://10.0.0.1:6443", tmp_path, proxy_url=url, tls_server_name=NAME))
    try:
        assert await client.get(NODES, "n1") == {"items": ["/api/v1/nodes/n1"]}
    finally:
        await client.close()
    assert [address for address, _ in asked] == ["10.0.0.1:6443"]


async def test_a_socks_proxy_that_reaches_no_server_is_said_by_the_dashboard(
    socks: tuple[int, list[tuple[str, str]]], tmp_path: Path
) -> None:
    client = CallerClient(reached("https://10.0.0.1:1", tmp_path, proxy_url=f"socks5://127.0.0.1:{socks[0]}"))
    try:
        with pytest.raises(UnreachableError):
            await client.get(NODES, "n1")
    finally:
        await client.close()


def test_a_socks_proxy_finds_a_server_that_this_machine_does_not_know(
    socks: tuple[int, list[tuple[str, str]]], tmp_path: Path
) -> None:
    port, asked = socks
    behind = reached("https://api.internal:6443", tmp_path, proxy_url=f"socks5://alice:secret@127.0.0.1:{port}")
    assert asks(behind) == {"items": ["/api"]}
    assert asked == [("api.internal:6443", "alice:secret")]
    refused = reached("https://api.internal:1", tmp_path, proxy_url=f"socks5://127.0.0.1:{port}")
    with pytest.raises(UserError, match=r"does not connect to api.internal:1: .*refused") as told:
        asks(refused)
    assert told.value.exit_code == EXIT_UNAVAILABLE


@pytest.mark.parametrize(
    ("url", "name"),
    [("https://api.internal:6443", None), ("https://10.0.0.1:6443", NAME), ("https://10.0.0.1:1", NAME)],
)
async def test_the_sdk_goes_through_socks_too(
    socks: tuple[int, list[tuple[str, str]]], tmp_path: Path, url: str, name: str | None
) -> None:
    port, asked = socks
    proxy = f"socks5://127.0.0.1:{port}"
    session = ApiSession(reached(url, tmp_path, proxy_url=proxy, tls_server_name=name))
    try:
        if url.endswith(":1"):
            with pytest.raises(ClusterUnreachableError, match=r"does not connect to 10.0.0.1:1: .*refused"):
                await session.request("GET", "/api")
        else:
            assert await session.request("GET", "/api") == {"items": ["/api"]}
    finally:
        await session.close()
    assert asked == [(url.removeprefix("https://"), "")]


def test_a_proxy_that_is_not_spoken_to_is_said_before_anybody_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="socks4") as refused:
        asks(reached("https://api.internal", tmp_path, proxy_url="socks4://127.0.0.1:1080"))
    assert refused.value.exit_code == EXIT_USAGE
