"""Asks the API server whether a caller may read `/metrics`, as Kubernetes' own components do."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

import kubernetes

from cotenant.serving.metrics_access import (
    ASKING_MAX,
    Access,
    RememberedAccess,
    access_of,
    subject_access_review,
    token_of,
    token_review,
    user_of,
)
from cotenant_agent.reports.gpunode_client import UNREACHABLE

TIMEOUT_S: Final = (2, 5)


class MetricsAccess:
    """Remembers answers for some seconds, and limits the questions at a time. Any thread may call it."""

    def __init__(self) -> None:
        self._authentication = kubernetes.client.AuthenticationV1Api()
        self._authorization = kubernetes.client.AuthorizationV1Api()
        self._remembered, self._lock = RememberedAccess(), threading.Lock()
        self._asking = threading.BoundedSemaphore(ASKING_MAX)

    def access(self, header: str) -> Access:
        """Answer for an Authorization header, which may be empty."""
        token = token_of(header)
        if not token:
            return Access.UNAUTHENTICATED
        with self._lock:
            known = self._remembered.find(token, time.monotonic())
        if known is not None:
            return known
        if not self._asking.acquire(blocking=False):
            return Access.BUSY
        try:
            answer = self._ask(token)
        except UNREACHABLE:
            answer = Access.UNKNOWN
        finally:
            self._asking.release()
        with self._lock:
            self._remembered.keep(token, answer, time.monotonic())
        return answer

    def _ask(self, token: str) -> Access:
        reviewed = self._authentication.create_token_review(token_review(token), _request_timeout=TIMEOUT_S)
        user = user_of(self._plain(reviewed))
        if user is None:
            return Access.UNAUTHENTICATED
        question = subject_access_review(user)
        answered = self._authorization.create_subject_access_review(question, _request_timeout=TIMEOUT_S)
        return access_of(self._plain(answered))

    def _plain(self, value: Any) -> dict[str, Any]:
        return dict(self._authentication.api_client.sanitize_for_serialization(value))
