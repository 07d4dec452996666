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

from cotenant.cli.errors import EXIT_FORBIDDEN, EXIT_NOT_FOUND, EXIT_UNAVAILABLE, EXIT_USAGE, UserError
from cotenant.cli.terminal import api_connection
from cotenant.sdk import kubeconfig
from cotenant.sdk.errors import CredentialsError
from cotenant.sdk.job_paths import QUESTIONS
from cotenant.sdk.kubeconfig import ApiServer

TIMEOUT_S: Final = 30.0
ANSWER_BYTES: Final = 64 * 1024 * 1024
MERGE_PATCH: Final = "application/merge-patch+json"
NO_API: Final = (
    "this cluster's operator answers no such questions: it is older than this program, or was installed with"
    " query.enabled=false, or Kubernetes is older than 1.33"
)
CHUNK: Final = 1 << 16
NO_RESOURCE: Final = "this cluster does not know such objects: are Cotenant's CRDs installed?"


def add_arguments(parser: argparse._ActionsContainer, *, all_namespaces: bool = False) -> None:
    parser.add_argument("-n", "--namespace", metavar="NAMESPACE", help="namespace (default: that of the context)")
    if all_namespaces:
        parser.add_argument("-A", "--all-namespaces", action="store_true", help="list all namespaces")
    parser.add_argument("--context", metavar="CONTEXT", help="context of the kubeconfig (default: the current one)")
    parser.add_argument("--kubeconfig", metavar="FILE", help="file (default: $KUBECONFIG, or ~/.kube/config)")


class BadRequestError(UserError):
    """The API server cannot do it now: for example, a container that has not started has no log."""


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
                code, answer = response.status, response.read(ANSWER_BYTES)
            if code != 401 or not self.server.renew():
                break
        if code < 300:
            return _document(answer)
        raise _refusal(code, answer, is_question=path.startswith(QUESTIONS))

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
                    raise _refusal(response.status, response.read(ANSWER_BYTES), is_question=False)
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


_VIEWER: Final = (
    "\nYour own queue: `kubectl cotenant offer`, `kubectl get localqueues`. Whoever is bound to the ClusterRole"
    " cotenant-queue-viewer sees all queues and nodes: ask an administrator (the chart's tenants.queueViewers)."
)
_OF_VIEWERS: Final = frozenset({"queuetrees", "nodeneeds", "queues", "gpunodes"})
_OF_ADMINISTRATORS: Final = frozenset({"queues", "gpunodes", "bookings", "clusterwhatifs", "quotarequests"})
"""Kinds that administrators alone change or ask, except that tenants create quotarequests."""
_OF_NAMESPACES: Final = frozenset(
    {"explanations", "offers", "quotarequests", "runs", "sessions", "showbacks", "sweeps", "trainingjobs"}
)


def _document(text: bytes) -> dict[str, Any]:
    """The parsed answer. An answer that is not an object becomes an empty one."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _who_may(kind: str, message: str) -> str:
    """What a person can do who lacks a right, after the sentence of the API server."""
    verb = message.partition(" cannot ")[2].partition(" ")[0]
    if kind in _OF_ADMINISTRATORS and verb in {"create", "update", "patch", "delete"}:
        return "\nAsk an administrator, who is bound to the ClusterRole cotenant-administrator."
    if kind in _OF_VIEWERS:
        return _VIEWER
    if kind in _OF_NAMESPACES and message.endswith("at the cluster scope"):
        return "\nWithout -A you see your own namespace; -n NAMESPACE is another."
    return ""


def _refusal(code: int, text: bytes, *, is_question: bool) -> UserError:
    """Sentence and exit code for an error answer."""
    document = _document(text)
    message = str(document.get("message") or text[:300].decode(errors="replace").strip())
    if code == 404 and document.get("kind") != "Status":
        return UserError(NO_API if is_question else NO_RESOURCE, EXIT_UNAVAILABLE)
    if code == 404:
        return UserError(message, EXIT_NOT_FOUND)
    if code in {401, 403}:
        hint = _who_may(str((document.get("details") or {}).get("kind")), message)
        return UserError((message or "the API server does not know you") + hint, EXIT_FORBIDDEN)
    if code in {429, 503, 504} and is_question:
        return UserError(
            f"the operator does not answer now ({message}); its leader may be changing: ask again in some seconds."
            " If it stays so, `kubectl cotenant doctor` tells an administrator why",
            EXIT_UNAVAILABLE,
        )
    if code in {429, 503, 504}:
        return UserError(f"the API server does not answer now ({message}): ask again in some seconds", EXIT_UNAVAILABLE)
    if document.get("reason") == "BadGateway":  # the operator's word about another cluster
        return UserError(message, EXIT_UNAVAILABLE)
    if code in {413, 422}:
        return UserError(message)
    if code >= 500 and not is_question:
        return UserError(f"the API server failed ({code}): {message}", EXIT_UNAVAILABLE)
    if is_question:
        return UserError(f"the operator refused the question ({code}): {message}")
    refused = f"the API server refused it ({code}): {message}"
    return BadRequestError(refused) if code == 400 else UserError(refused)
