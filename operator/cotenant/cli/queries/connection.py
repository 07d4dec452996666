"""The way to the operator's API of questions: a kubeconfig, as kubectl reads it, and the API server."""

from __future__ import annotations

import argparse
import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from cotenant import names
from cotenant.cli.errors import UserError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

API: Final = f"/apis/{names.QUERY_GROUP}/{names.VERSION}"
TIMEOUT_S: Final = 30.0
ANSWER_BYTES: Final = 64 * 1024 * 1024
EXIT_NOT_FOUND: Final = 3
EXIT_FORBIDDEN: Final = 4
EXIT_UNAVAILABLE: Final = 5
NO_API: Final = (
    "this cluster's operator answers no such questions: it is older than this program, or was installed with"
    " query.enabled=false, or Kubernetes is older than 1.33"
)


def add_arguments(parser: argparse.ArgumentParser, *, all_namespaces: bool = False) -> None:
    parser.add_argument("-n", "--namespace", help="namespace (default: that of the context)")
    if all_namespaces:
        parser.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")
    parser.add_argument("--context", help="context of the kubeconfig (default: the current one)")
    parser.add_argument("--kubeconfig", help="file (default: $KUBECONFIG, or ~/.kube/config)")


@dataclass(frozen=True, slots=True)
class Connection:
    configuration: Configuration
    namespace: str
    """Of the flags, or of the context."""

    def get(self, path: str) -> dict[str, Any]:
        """The document at this path below the API of questions. Raises UserError."""
        return self._call("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._call("POST", path, json.dumps(body).encode())

    def _call(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        from cotenant.controller.client.credentials import authorization

        url = urlsplit(str(self.configuration.host))
        connection = self._open(url.scheme, url.netloc)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        try:
            connection.request(
                method, url.path.rstrip("/") + API + path, body, headers | authorization(self.configuration)
            )
            response = connection.getresponse()
            code, text = response.status, response.read(ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise UserError(f"the API server at {url.netloc} is not reached: {error}", EXIT_UNAVAILABLE) from error
        finally:
            connection.close()
        return _document(code, text)

    def _open(self, scheme: str, address: str) -> http.client.HTTPConnection:
        from cotenant.controller.client.credentials import tls

        if scheme != "https":
            return http.client.HTTPConnection(address, timeout=TIMEOUT_S)
        context = tls(self.configuration)
        assert isinstance(context, ssl.SSLContext)
        return http.client.HTTPSConnection(address, timeout=TIMEOUT_S, context=context)


def connect(args: argparse.Namespace) -> Connection:
    """By the flags of `add_arguments`. Raises UserError."""
    try:
        from kubernetes import config
        from kubernetes.client import Configuration
    except ImportError:
        raise UserError("a cluster is asked with the dependencies of cotenant[operator]: install these", 2) from None
    configuration = Configuration()
    in_a_pod = False
    try:
        config.load_kube_config(args.kubeconfig, context=args.context, client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        if args.kubeconfig or args.context:
            raise UserError(f"the kubeconfig cannot be read: {error}", 2) from error
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException:
            raise UserError(f"no cluster to ask ({error}); set KUBECONFIG, or give --kubeconfig", 2) from error
        in_a_pod = True
    return Connection(configuration, args.namespace or _namespace(args, in_a_pod=in_a_pod))


def _namespace(args: argparse.Namespace, *, in_a_pod: bool) -> str:
    from kubernetes import config

    if in_a_pod:
        return "default"
    contexts, active = config.list_kube_config_contexts(args.kubeconfig)
    chosen = next((one for one in contexts if one["name"] == args.context), active)
    return str(chosen["context"].get("namespace") or "default")


def _document(code: int, text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        document = {}
    if not isinstance(document, dict):
        document = {}
    if code < 300:
        return document
    message = str(document.get("message") or text[:300].decode(errors="replace").strip())
    if code == 404 and document.get("kind") != "Status":
        raise UserError(NO_API, EXIT_UNAVAILABLE)
    if code == 404:
        raise UserError(message, EXIT_NOT_FOUND)
    if code in {401, 403}:
        raise UserError(message or "the API server does not know you", EXIT_FORBIDDEN)
    if code in {429, 503, 504}:
        raise UserError(
            f"the operator does not answer now ({message}); its leader may be changing: ask again in some seconds",
            EXIT_UNAVAILABLE,
        )
    if code in {413, 422}:
        raise UserError(message)
    raise UserError(f"the operator refused the question ({code}): {message}")
