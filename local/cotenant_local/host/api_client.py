"""The one client of the API server in this tree: requests, server-side apply, and answers that stay open for a watch.

Standard library only: the supervisor (PID 1) and the nodes' runtimes hold one each, and a full client would triple
their memory.
"""

import base64
import functools
import http.client
import json
import os
import ssl
import threading
import urllib.parse
from pathlib import Path
from typing import Any, Final, Self

MERGE: Final = "application/merge-patch+json"
CALL_TIMEOUT_S: Final = 10


class ApiError(Exception):
    """A refusal: the status code of HTTP, and a message with method, path and the server's reason."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    def __init__(self, host: str, port: int, tls: ssl.SSLContext) -> None:
        # One connection per thread: a handshake for every request costs both ends more than the request.
        self._threads = threading.local()
        self._open = functools.partial(http.client.HTTPSConnection, host, port, context=tls)

    @classmethod
    def from_pki(cls, host: str, port: int, pki: Path, identity: str = "admin") -> Self:
        """A client with the certificate of `identity` from the cluster's folder of certificates."""
        tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        tls.load_cert_chain(pki / f"{identity}.crt", pki / f"{identity}.key")
        return cls(host, port, tls)

    @classmethod
    def from_kubeconfig(cls, kubeconfig: Path) -> Self:
        """A client with the credentials of a kubeconfig: JSON with everything inside, as `identities` writes it."""
        document = json.loads(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        tls = ssl.create_default_context(cadata=authority)
        pair = [base64.b64decode(user[name]) for name in ("client-certificate-data", "client-key-data")]
        fd = os.memfd_create("client")  # the library reads certificates from files only
        try:
            os.write(fd, b"\n".join(pair))
            tls.load_cert_chain(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
        address = urllib.parse.urlsplit(cluster["server"])
        return cls(address.hostname or "", address.port or 443, tls)

    @property
    def _connection(self) -> http.client.HTTPSConnection:
        if not hasattr(self._threads, "connection"):
            self._threads.connection = self._open(timeout=CALL_TIMEOUT_S)
        connection: http.client.HTTPSConnection = self._threads.connection
        return connection

    def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, kind: str = "application/json"
    ) -> Any:
        """The answer's document (or text). Raises `ApiError` on a refusal, `OSError` if nothing answers."""
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
        """Creates the object, or updates an existing one (server-side apply)."""
        where = f"{path}/{body['metadata']['name']}?fieldManager=cotenant-local&force=true"
        self.call("PATCH", where, body, kind="application/apply-patch+yaml")

    def stream(self, path: str, timeout_s: float) -> http.client.HTTPResponse:
        """An answer that is still open, on a connection of its own; raises OSError, also for a refusal."""
        connection = self._open(timeout=timeout_s)
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(f"GET {path}: {answer.status} {answer.reason}")
        return answer

    def ready(self) -> bool:
        try:
            return bool(self.call("GET", "/readyz") == "ok")
        except (ApiError, OSError):
            return False
