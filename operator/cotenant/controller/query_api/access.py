"""What a caller may ask, and in which namespaces the caller may read jobs. The API server's authorization decides."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from typing import Final, TypeAlias

from cotenant import names
from cotenant.controller.client.kube import SUBJECT_ACCESS_REVIEWS, Kube, UnreachableError
from cotenant.controller.query_api.front_proxy import Caller
from cotenant.query.redaction import Sees
from cotenant.serving.metrics_access import Access, access_of, subject_access_review

REMEMBER_S: Final = 10.0
REMEMBERED_MAX: Final = 4_096
NAMESPACES_MAX: Final = 40
"""Most namespaces that one answer asks about. Jobs of further namespaces are shown without a name."""
REVIEWS_MAX: Final = 8
"""Reviews at one time."""

_Key: TypeAlias = tuple[object, ...]


class UnknownAccessError(RuntimeError):
    """The API server does not say what the caller may."""


class CallerAccess:
    """Remembers answers for some seconds. `kube` writes without a fence: a review changes nothing."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._known: OrderedDict[_Key, tuple[bool, float]] = OrderedDict()
        self._reviews = asyncio.Semaphore(REVIEWS_MAX)

    async def may(self, caller: Caller, verb: str, resource: str, namespace: str = "") -> bool:
        """True if the caller may do this in the API of questions. Raises UnknownAccessError."""
        return await self._allowed(caller, names.QUERY_GROUP, verb, resource, namespace)

    async def sees(self, caller: Caller, namespaces: Collection[str]) -> Sees:
        """Those of these namespaces in which the caller may read TrainingJobs. Raises UnknownAccessError."""
        if await self._reads(caller, ""):
            return lambda _: True
        asked = sorted(namespaces)[:NAMESPACES_MAX]
        answers = await asyncio.gather(*(self._reads(caller, one) for one in asked))
        seen = {namespace for namespace, answer in zip(asked, answers, strict=True) if answer}
        return seen.__contains__

    async def _reads(self, caller: Caller, namespace: str) -> bool:
        return await self._allowed(caller, names.GROUP, "get", "trainingjobs", namespace)

    async def _allowed(self, caller: Caller, group: str, verb: str, resource: str, namespace: str) -> bool:
        key, now = (caller.key, group, verb, resource, namespace), asyncio.get_running_loop().time()
        known, until = self._known.get(key, (False, now))
        if now < until:
            return known
        plural, _, subresource = resource.partition("/")
        asked = {"group": group, "verb": verb, "resource": plural, "namespace": namespace}
        asked |= {"subresource": subresource} if subresource else {}
        async with self._reviews:
            answer = await self._review(caller, asked)
        self._known[key] = answer, now + REMEMBER_S
        self._known.move_to_end(key)
        while len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        return answer

    async def _review(self, caller: Caller, attributes: dict[str, str]) -> bool:
        extra = {name: list(values) for name, values in caller.extra.items()}
        user = {"username": caller.user, "uid": caller.uid, "groups": caller.groups, "extra": extra}
        body = subject_access_review(user, {"resourceAttributes": attributes})
        try:
            reply = await self._kube.create(SUBJECT_ACCESS_REVIEWS, body)
        except UnreachableError as error:
            raise UnknownAccessError(str(error)) from error
        if not reply.done:
            raise UnknownAccessError(reply.message)
        return access_of(reply.document) is Access.ALLOWED
