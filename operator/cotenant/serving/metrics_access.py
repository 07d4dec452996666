"""Access to `/metrics`: a bearer token that the API server knows, of a user who may `get` that URL. Pure.

The two questions to the API server (TokenReview, SubjectAccessReview) as documents, what their answers mean, and how
long that is remembered. `system:auth-delegator` is Kubernetes' own name for the right to ask them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

PATH: Final = "/metrics"
SCHEME: Final = "bearer "
TOKEN_CHARS_MAX: Final = 8192
REMEMBER_S: Final = 30.0
REMEMBERED_MAX: Final = 256
ASKING_MAX: Final = 4
"""Questions to the API server at one time: whoever guesses tokens costs it no more than that."""


class Access(IntEnum):
    """HTTP status of an answer."""

    ALLOWED = 200
    UNAUTHENTICATED = 401
    FORBIDDEN = 403
    BUSY = 429
    UNKNOWN = 503

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES: Final = {
    Access.ALLOWED: "",
    Access.UNAUTHENTICATED: "give the token of an account of this cluster: Authorization: Bearer ...",
    Access.FORBIDDEN: "this account may not get /metrics; bind it to the ClusterRole cotenant-metrics-reader",
    Access.BUSY: "too many tokens are being looked up; come again",
    Access.UNKNOWN: "the API server does not say who this is; come again",
}


def token_of(header: str) -> str:
    """Token in an Authorization header; empty where there is none of a possible length."""
    token = header[len(SCHEME) :].strip() if header[: len(SCHEME)].lower() == SCHEME else ""
    return token if len(token) <= TOKEN_CHARS_MAX and token.isascii() else ""


def token_review(token: str) -> dict[str, Any]:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}


def user_of(review: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """User of an answered TokenReview; None unless the token is good."""
    status = review.get("status") or {}
    user: Mapping[str, Any] = status.get("user") or {}
    return user if status.get("authenticated") is True and user.get("username") else None


METRICS: Final = {"nonResourceAttributes": {"path": PATH, "verb": "get"}}


def subject_access_review(user: Mapping[str, Any], asked: Mapping[str, Any] = METRICS) -> dict[str, Any]:
    """May this user do what is asked? By default: get `/metrics`."""
    spec = {
        "user": user["username"],
        "uid": user.get("uid") or "",
        "groups": list(user.get("groups") or []),
        "extra": dict(user.get("extra") or {}),
        **asked,
    }
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def access_of(review: Mapping[str, Any]) -> Access:
    """Answer of a SubjectAccessReview."""
    return Access.ALLOWED if (review.get("status") or {}).get("allowed") is True else Access.FORBIDDEN


class RememberedAccess:
    """Answers of the last seconds by a digest of their token. Times are seconds of any clock that does not go back."""

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, tuple[Access, float]] = OrderedDict()

    def find(self, token: str, now: float) -> Access | None:
        answer, until = self._answers.get(_digest(token), (None, now))
        return answer if now < until else None

    def keep(self, token: str, access: Access, now: float) -> None:
        """Remember it, unless asking again may help. The oldest answers make room."""
        if access in {Access.BUSY, Access.UNKNOWN}:
            return
        self._answers[_digest(token)] = (access, now + REMEMBER_S)
        self._answers.move_to_end(_digest(token))
        while len(self._answers) > REMEMBERED_MAX:
            self._answers.popitem(last=False)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
