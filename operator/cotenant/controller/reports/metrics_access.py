"""Asks the API server whether a caller may read `/metrics`, as Kubernetes' own components do."""

from __future__ import annotations

import asyncio

from cotenant.controller.client.kube import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Kube, UnreachableError
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


class MetricsAccess:
    """Remembers answers for some seconds, and limits concurrent questions.

    Questions pass no fence, because a replica that does not lead serves metrics too.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._remembered = RememberedAccess()
        self._asking = 0

    async def access(self, header: str) -> Access:
        """Answer for an Authorization header, which may be empty."""
        token = token_of(header)
        if not token:
            return Access.UNAUTHENTICATED
        if (known := self._remembered.find(token, asyncio.get_running_loop().time())) is not None:
            return known
        if self._asking >= ASKING_MAX:
            return Access.BUSY
        self._asking += 1
        try:
            answer = await self._ask(token)
        except UnreachableError:
            answer = Access.UNKNOWN
        finally:
            self._asking -= 1
        self._remembered.keep(token, answer, asyncio.get_running_loop().time())
        return answer

    async def _ask(self, token: str) -> Access:
        reviewed = await self._kube.create(TOKEN_REVIEWS, token_review(token))
        if not reviewed.done:
            return Access.UNKNOWN
        user = user_of(reviewed.document)
        if user is None:
            return Access.UNAUTHENTICATED
        allowed = await self._kube.create(SUBJECT_ACCESS_REVIEWS, subject_access_review(user))
        return access_of(allowed.document) if allowed.done else Access.UNKNOWN
