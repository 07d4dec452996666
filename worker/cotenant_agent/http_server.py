"""HTTP server of the agent: GET only, a bounded number of connections, with TLS if there is a certificate.

A client can use up at most these connections, and it delays nobody: a new connection closes the oldest.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from typing import Any, Final

from cotenant.serving.certificate import ServingCertificate
from cotenant.serving.sockets import listening

CONNECTIONS_MAX: Final = 32
CONNECTION_S: Final = 10.0
"""A connection that is silent for this long is closed."""


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: bytes
    kind: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


Respond = Callable[[str], Answer]
"""Authorization header, which may be empty → answer."""


def serve(
    address: tuple[str, int], paths: Mapping[str, Respond], certificate: ServingCertificate | None = None
) -> ThreadingHTTPServer:
    """Start the server in a thread of its own and return it. `shutdown` ends it."""

    class PathHandler(BaseHTTPRequestHandler):
        timeout = CONNECTION_S

        def do_GET(self) -> None:
            respond = paths.get(self.path)
            known = ", ".join(paths)
            self._send(
                respond(self.headers.get("Authorization", "")) if respond else Answer(404, f"{known}\n".encode())
            )

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.code)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *args: object) -> None:
            """Log nothing: probes come every few seconds."""

    server = BoundedServer(address, PathHandler)
    if certificate is not None:
        server.secure(certificate)
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    return server


class BoundedServer(ThreadingHTTPServer):
    """One thread for each connection. If there are too many, the oldest is closed."""

    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: list[socket] = []
        self._lock = threading.Lock()
        self._certificate: ServingCertificate | None = None
        super().__init__(address, handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening(address, backlog=self.request_queue_size)
        host, port = self.socket.getsockname()[:2]
        self.server_address, self.server_port = (host, port), port

    def secure(self, certificate: ServingCertificate) -> None:
        """Use TLS. The handshake is done in the connection's own thread, so a silent client delays nobody else."""
        self._certificate = certificate
        self.socket = certificate.context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def get_request(self) -> tuple[Any, Any]:
        if self._certificate is not None:
            self._certificate.refresh()
        return super().get_request()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.append(request)
            oldest = self._open.pop(0) if len(self._open) > CONNECTIONS_MAX else None
        if oldest is not None:
            with contextlib.suppress(OSError):  # it may have ended by itself
                oldest.shutdown(SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            if request in self._open:
                self._open.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that hangs up, or that does not speak TLS."""
