"""Rendezvous of Horovod's ranks: `python -m cotenant_worker.ranks.horovod_rendezvous FD`, a process in rank 0's pod.

Horovod's Gloo controller needs a key-value store over HTTP. `PUT /scope/key` stores the body. `GET` returns it, or 404,
after which the client retries. `DELETE` removes a rank's key when that rank has met all others. The launcher starts a
new store for every start of the ranks, so keys of an earlier generation are never found. It passes a socket that
already listens, because Horovod's client gives up after three tries. There is no password: the job's NetworkPolicy
keeps others out.
"""

from __future__ import annotations

import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_BODY = 1 << 20
"""Addresses of one rank take some hundred bytes for each peer."""
_KEYS = 100_000


class Store:
    """Scope → key → value. Bounded, because anything in the pod's network may write."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], bytes] = {}
        self._lock = threading.Lock()

    def put(self, scope: str, key: str, value: bytes) -> bool:
        """False if there is no room for another key."""
        with self._lock:
            if (scope, key) not in self._values and len(self._values) >= _KEYS:
                return False
            self._values[scope, key] = value
            return True

    def get(self, scope: str, key: str) -> bytes | None:
        with self._lock:
            return self._values.get((scope, key))

    def delete(self, scope: str, key: str) -> None:
        with self._lock:
            self._values.pop((scope, key), None)


def handler_of(store: Store) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_GET(self) -> None:
            where = self._where()
            value = store.get(*where) if where else None
            self._answer(200 if value is not None else 404 if where else 400, value or b"")

        def do_PUT(self) -> None:
            where, length = self._where(), self.headers.get("Content-Length", "")
            if where is None or not length.isdigit():
                self._answer(400)
            elif int(length) > _BODY:
                self._answer(413)
            else:
                self._answer(200 if store.put(*where, self.rfile.read(int(length))) else 507)

        def do_DELETE(self) -> None:
            where = self._where()
            if where:
                store.delete(*where)
            self._answer(200 if where else 400)

        def _where(self) -> tuple[str, str] | None:
            """(scope, key) of `/scope/key`."""
            parts = self.path.split("/")
            return (parts[1], parts[2]) if len(parts) == 3 and parts[1] and parts[2] else None

        def _answer(self, code: int, body: bytes = b"") -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Log nothing: clients ask every 10 ms until their peers are there."""

    return Handler


def serve(listener: socket.socket) -> None:
    """Serve on a listening socket until the process is ended."""
    with ThreadingHTTPServer(listener.getsockname(), handler_of(Store()), bind_and_activate=False) as server:
        server.socket.close()
        server.socket = listener
        server.serve_forever()


def main() -> None:
    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
