"""The questions of the API, each answered as the caller may see it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from cotenant import names
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.query_api import documents
from cotenant.controller.query_api.access import CallerAccess
from cotenant.controller.query_api.front_proxy import Caller
from cotenant.controller.query_api.proposals import annotated_user, proposed_job, spec_of
from cotenant.controller.query_api.questions import NoSituationError, Questions, Subject
from cotenant.query.explanation import Explanation, explain
from cotenant.query.offer import offers
from cotenant.query.queue_tree import queue_tree
from cotenant.query.what_if import WhatIf, what_if

PLAY_S: Final = 2.0
"""CPU seconds of a played future in one answer."""
LISTED_MAX: Final = 5_000
"""Jobs of one list."""


class NotFoundError(RuntimeError):
    """There is no such job, or no such question."""


@dataclass(slots=True, kw_only=True)
class Answers:
    cache: ObjectCache
    questions: Questions
    access: CallerAccess
    is_leader: Callable[[], bool]
    reserve_mib: int = 0
    """Memory that the operator adds to each worker's."""

    async def explanation(self, request: web.Request, caller: Caller) -> documents.Document:
        """Why one job waits."""
        self._require_leader()
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        key = f"{namespace}/{name}"
        about = await self.questions.ask(
            annotated_user(caller.user), lambda subject: explain(subject.situation, key, subject.line)
        )
        if about is not None:
            seen = about.as_seen(await self.access.sees(caller, about.namespaces))
            return documents.answer("Explanation", name, namespace, documents.explanation_status(seen))
        record = self.cache.jobs.get(key)
        if record is None:
            raise NotFoundError(f'trainingjobs.{names.GROUP} "{name}" not found in namespace "{namespace}"')
        status = {
            "standing": record.phase.value,
            "queue": record.queue_named,
            "message": record.problem or record.status.message or "",
            "needsChange": record.problem is not None,
        }
        return documents.answer("Explanation", name, namespace, status)

    async def explanations(self, request: web.Request, caller: Caller) -> documents.Document:
        """Jobs that wait or hold GPUs, of a namespace or of all; who is ahead of each is counted, not listed."""
        self._require_leader()
        namespace = request.match_info.get("namespace", "")

        def listed(subject: Subject) -> list[Explanation]:
            jobs = subject.situation.jobs.values()
            keys = sorted(job.key for job in jobs if namespace in ("", job.namespace))
            keys = [key for key in keys if key in self.cache.jobs][:LISTED_MAX]
            return [one for key in keys if (one := subject.summary(key)) is not None]

        found = await self.questions.ask(annotated_user(caller.user), listed)
        sees = await self.access.sees(caller, {one for about in found for one in about.namespaces})
        return documents.explanation_list([one.as_seen(sees) for one in found])

    async def what_if(self, request: web.Request, caller: Caller) -> documents.Document:
        """What a proposed job, or a change of one that waits, would do."""
        self._require_leader()
        namespace = request.match_info["namespace"]
        spec = spec_of(await request.read())
        job = proposed_job(
            spec, namespace, user=caller.user, cache=self.cache, reserve_mib=self.reserve_mib, now=time.time()
        )

        def asked(subject: Subject) -> WhatIf:
            ends = time.thread_time() + PLAY_S
            return what_if(subject.situation, job, lambda: time.thread_time() < ends)

        found = await self.questions.ask(annotated_user(caller.user), asked)
        seen = found.as_seen(await self.access.sees(caller, found.namespaces))
        return documents.answer("WhatIf", job.key.partition("/")[2], namespace, documents.what_if_status(seen))

    async def offers(self, request: web.Request, caller: Caller) -> documents.Document:
        """What jobs of a namespace could get now."""
        self._require_leader()
        namespace = request.match_info["namespace"]
        found = await self.questions.ask(
            annotated_user(caller.user), lambda subject: offers(subject.situation, namespace)
        )
        return documents.offer_list(namespace, found)

    async def queue_trees(self, _: web.Request, caller: Caller) -> documents.Document:
        """All queues with what they hold."""
        self._require_leader()
        return documents.queue_tree_list(
            await self.questions.ask(annotated_user(caller.user), lambda subject: queue_tree(subject.situation))
        )

    def _require_leader(self) -> None:
        if not self.is_leader():
            raise NoSituationError("the operator is changing its leader; ask again in some seconds")
