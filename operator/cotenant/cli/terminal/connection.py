"""The connection to the API server and to the operator's query API behind it, from a kubeconfig as kubectl reads it."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from cotenant.cli.errors import EXIT_UNAVAILABLE, EXIT_USAGE, UserError
from cotenant.cli.terminal import api_connection
from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.refusals import parsed, refusal
from cotenant.sdk import kubeconfig
from cotenant.sdk.errors import CredentialsError
from cotenant.sdk.job_paths import QUESTIONS
from cotenant.sdk.kubeconfig import ApiServer

TIMEOUT_S: Final = 30.0
ANSWER_BYTES: Final = 64 * 1024 * 1024
MERGE_PATCH: Final = "application/merge-patch+json"
CHUNK: Final = 1 << 16


def add_arguments(parser: argparse._ActionsContainer, *, all_namespaces: bool = False) -> None:
    parser.add_argument("-n", "--namespace", metavar="NAMESPACE", help="namespace (default: that of the context)")
    if all_namespaces:
        parser.add_argument("-A", "--all-namespaces", action="store_true", help="list all namespaces")
    parser.add_argument("--context", metavar="CONTEXT", help="context of the kubeconfig (default: the current one)")
    parser.add_argument("--kubeconfig", metavar="FILE", help="file (default: $KUBECONFIG, or ~/.kube/config)")


@dataclass(frozen=True, slots=True)
class Connection:
    server: ApiServer
    namespace: str
    """The namespace from the flags, or from the context."""

    timeout_s: float = TIMEOUT_S

    def get(self, path: str) -> dict[str, Any]:
        """The document at this path of the operator's query API. Raises UserError."""
        return self.call("GET", QUESTIONS + path)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call("POST", QUESTIONS + path, body)

    def read(self, path: str) -> dict[str, Any]:
        """The document at this path of the API server: `/apis/…`. Raises UserError."""
        return self.call("GET", path)

    def patch(
        self, path: str, body: Mapping[str, Any] | Sequence[Any], content_type: str = MERGE_PATCH
    ) -> dict[str, Any]:
        return self.call("PATCH", path, body, content_type)

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Any] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """The API server's answer to one request. Raises UserError with the exit code that fits the failure."""
        headers = {"Accept": "application/json", "Content-Type": content_type}
        text = None if body is None else json.dumps(body).encode()
        for _ in range(2):
            with self._reached() as connection:
                connection.request(method, self._below(path), text, headers | self.server.authorization())
                response = connection.getresponse()
                clock.note(response.getheader("Date"))
                code, answer = response.status, response.read(ANSWER_BYTES)
            if code != 401 or not self.server.renew():
                break
        if code < 300:
            return parsed(answer)
        raise refusal(code, answer, path, is_question=path.startswith(QUESTIONS))

    def stream(self, path: str, *, endless: bool) -> Iterator[bytes]:
        """What the API server sends from this path, as it arrives. `endless`: silence does not end it. Raises
        UserError.
        """
        for is_first in (True, False):
            with self._reached() as connection:
                connection.request("GET", self._below(path), headers=self.server.authorization())
                if endless:
                    connection.sock.settimeout(None)
                response = connection.getresponse()
                if response.status == 401 and is_first and self.server.renew():
                    continue
                if response.status >= 300:
                    raise refusal(response.status, response.read(ANSWER_BYTES), path, is_question=False)
                while chunk := response.read1(CHUNK):
                    yield chunk
                return

    def _below(self, path: str) -> str:
        return urlsplit(self.server.url).path.rstrip("/") + path

    @contextlib.contextmanager
    def _reached(self) -> Iterator[http.client.HTTPConnection]:
        """A connection for one request. Raises UserError."""
        address = urlsplit(self.server.url).netloc
        connection = None
        try:
            connection = api_connection.opened(self.server, self.timeout_s)
            yield connection
        except CredentialsError as error:
            raise UserError(str(error), EXIT_USAGE) from error
        except (OSError, http.client.HTTPException) as error:
            raise UserError(f"the API server at {address} is not reached: {error}", EXIT_UNAVAILABLE) from error
        finally:
            if connection is not None:
                connection.close()


def connect(args: argparse.Namespace, timeout_s: float = TIMEOUT_S) -> Connection:
    """Connect with the flags of `add_arguments`. Raises UserError."""
    try:
        server = kubeconfig.load(args.kubeconfig, args.context)
    except CredentialsError as error:
        raise UserError(str(error), EXIT_USAGE) from error
    return Connection(server, args.namespace or server.namespace, timeout_s)
