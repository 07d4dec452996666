"""A small client of the cluster's own API server, for what `up` has to create and to wait for. Standard library only.

The supervisor (PID 1) uses it in a thread; a full client would triple its memory.
"""

import functools
import http.client
import json
import ssl
import threading
from pathlib import Path
from typing import Any

MERGE = "application/merge-patch+json"


class ApiError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    def __init__(self, host: str, port: int, pki: Path, identity: str = "admin") -> None:
        tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        tls.load_cert_chain(pki / f"{identity}.crt", pki / f"{identity}.key")
        # One connection per thread: a handshake for every question costs both ends more than the question.
        self._threads = threading.local()
        self._new = functools.partial(http.client.HTTPSConnection, host, port, context=tls, timeout=10)

    @property
    def _connection(self) -> http.client.HTTPSConnection:
        if not hasattr(self._threads, "connection"):
            self._threads.connection = self._new()
        connection: http.client.HTTPSConnection = self._threads.connection
        return connection

    def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, kind: str = "application/json"
    ) -> Any:
        """The answer's document (or text); `ApiError` on a refusal, `OSError` where nobody answers."""
        payload = json.dumps(body).encode() if body is not None else None
        try:
            connection = self._connection
            connection.request(method, path, payload, {"Content-Type": kind} if payload else {})
            answer = connection.getresponse()
            raw = answer.read()
        except (http.client.HTTPException, OSError) as error:
            self._connection.close()
            raise OSError(f"{method} {path}: {error!r}") from error
        try:
            document = json.loads(raw)
        except ValueError:
            document = raw.decode(errors="replace")
        if answer.status >= 300:
            message = document.get("message") if isinstance(document, dict) else document
            raise ApiError(answer.status, f"{method} {path}: {message}")
        return document

    def apply(self, path: str, body: dict[str, Any]) -> None:
        """There afterwards, whether or not it was before (kept state)."""
        where = f"{path}/{body['metadata']['name']}?fieldManager=cotenant-local&force=true"
        self.call("PATCH", where, body, kind="application/apply-patch+yaml")

    def ready(self) -> bool:
        try:
            return bool(self.call("GET", "/readyz") == "ok")
        except (ApiError, OSError):
            return False
