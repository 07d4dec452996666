"""A small client of the cluster's own API server, for what `up` has to create and to wait for. Standard library only.

The supervisor (PID 1) uses it in a thread; a full client would triple its memory.
"""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any

MERGE = "application/merge-patch+json"


class ApiError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    def __init__(self, host: str, port: int, pki: Path) -> None:
        self._address = (host, port)
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, kind: str = "application/json"
    ) -> Any:
        """The answer's document (or text); `ApiError` on a refusal, `OSError` where nobody answers."""
        connection = http.client.HTTPSConnection(*self._address, context=self._tls, timeout=10)
        try:
            payload = json.dumps(body).encode() if body is not None else None
            connection.request(method, path, payload, {"Content-Type": kind} if payload else {})
            answer = connection.getresponse()
            raw = answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()
        try:
            document = json.loads(raw)
        except ValueError:
            document = raw.decode(errors="replace")
        if answer.status >= 300:
            message = document.get("message") if isinstance(document, dict) else document
            raise ApiError(answer.status, f"{method} {path}: {message}")
        return document

    def create(self, path: str, body: dict[str, Any]) -> None:
        """Creates; an object that is already there (kept state) is patched to look the same."""
        try:
            self.call("POST", path, body)
        except ApiError as error:
            if error.status != 409:
                raise
            self.call("PATCH", f"{path}/{body['metadata']['name']}", body, kind=MERGE)

    def ready(self) -> bool:
        try:
            return bool(self.call("GET", "/readyz") == "ok")
        except (ApiError, OSError):
            return False
