"""What a refusal of the API server, or of the operator behind it, means to a person and to a script."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from cotenant.cli.errors import EXIT_FORBIDDEN, EXIT_NOT_FOUND, EXIT_UNAVAILABLE, UserError

NO_API: Final = (
    "this cluster's operator answers no such questions: it is older than this program, or was installed with"
    " query.enabled=false, or Kubernetes is older than 1.33"
)
NO_RESOURCE: Final = "this cluster does not know such objects: are Cotenant's CRDs installed?"
_MISSING: Final = re.compile(r'([a-z]+)\.(?:query\.)?cotenant\.dev "([^"]+)" not found')
_NEXT_PROBLEM: Final = re.compile(r"; (?=(?:spec|metadata)\.[\w.\[\]]+: )")
"""Where the sentence about the next field of a document begins: on a terminal each has its line."""
_LISTED: Final = {
    "queues": ("queue", "kubectl cotenant queues"),
    "quotarequests": ("request", "kubectl cotenant quota list"),
    "runs": ("run of a job", "kubectl cotenant history"),
    "sessions": ("session", "kubectl cotenant session list"),
    "sweeps": ("sweep", "kubectl get sweeps"),
    "trainingjobs": ("job", "kubectl get trainingjobs"),
}
"""Kind → its noun, and the command that lists those that there are."""
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


class BadRequestError(UserError):
    """The API server cannot do it now: for example, a container that has not started has no log."""


def parsed(text: bytes) -> dict[str, Any]:
    """The parsed answer. An answer that is not an object becomes an empty one."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def refusal(code: int, text: bytes, path: str, *, is_question: bool) -> UserError:
    """Sentence and exit code for an error answer."""
    document = parsed(text)
    message = str(document.get("message") or text[:300].decode(errors="replace").strip())
    if code == 404 and document.get("kind") != "Status":
        return UserError(NO_API if is_question else NO_RESOURCE, EXIT_UNAVAILABLE)
    if code == 404:
        return UserError(_missing(message, path), EXIT_NOT_FOUND)
    if code in {401, 403}:
        hint = _who_may(str((document.get("details") or {}).get("kind")), message)
        return UserError((message or "the API server does not know you") + hint, EXIT_FORBIDDEN)
    if code == 429 and (budget := _disruption_budget(document)):
        return UserError(f"a PodDisruptionBudget does not allow it now ({budget})")
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
        return UserError(_NEXT_PROBLEM.sub("\n", message))
    if code >= 500 and not is_question:
        return UserError(f"the API server failed ({code}): {message}", EXIT_UNAVAILABLE)
    if is_question:
        return UserError(f"the operator refused the question ({code}): {message}")
    refused = f"the API server refused it ({code}): {message}"
    return BadRequestError(refused) if code == 400 else UserError(refused)


def _disruption_budget(document: dict[str, Any]) -> str:
    """What a refused eviction says about the budget that forbids it; empty if the server is only busy."""
    causes = (document.get("details") or {}).get("causes") or ()
    return next((str(one.get("message") or "") for one in causes if one.get("reason") == "DisruptionBudget"), "")


def _who_may(kind: str, message: str) -> str:
    """What a person can do who lacks a right, after the sentence of the API server."""
    verb = message.partition(" cannot ")[2].partition(" ")[0]
    if kind in _OF_ADMINISTRATORS and verb in {"create", "update", "patch", "delete"}:
        return "\nAsk an administrator, who is bound to the ClusterRole cotenant-administrator."
    if kind in _OF_VIEWERS:
        return _VIEWER
    if kind in _OF_NAMESPACES and message.endswith("at the cluster scope"):
        return "\nWithout -A you see your own namespace; -n NAMESPACE is another."
    if kind in _OF_NAMESPACES and (where := message.partition(" in the namespace ")[2]):
        role = "view" if verb in {"get", "list", "watch"} else "edit"
        return f"\nThe ClusterRole {role} in that namespace allows it: ask whoever manages {where}."
    return ""


def _missing(message: str, path: str) -> str:
    """What is not there, and the command that lists what is, after the path that was asked for."""
    found = _MISSING.search(message)
    if found is None or found[1] not in _LISTED:
        return message
    noun, listing = _LISTED[found[1]]
    namespace = path.partition("/namespaces/")[2].partition("/")[0]
    where, flag = (f" in namespace {namespace}", f" -n {namespace}") if namespace else ("", "")
    return f"there is no {noun} {found[2]}{where}: `{listing}{flag}` lists those that there are"
