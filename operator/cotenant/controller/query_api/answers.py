"""The questions of the API, each answered as the caller may see it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

from aiohttp import web

from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.query_api import documents
from cotenant.controller.query_api.access import CallerAccess
from cotenant.controller.query_api.cluster_proposals import cluster_proposal
from cotenant.controller.query_api.front_proxy import Caller
from cotenant.controller.query_api.jobs.aside import aside_status, elsewhere, jobs_aside
from cotenant.controller.query_api.jobs.observations import observed, use_now
from cotenant.controller.query_api.proposals import ProposalError, annotated_user, proposed_job, spec_of
from cotenant.controller.query_api.questions import NotFoundError, Questions, Subject
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import Job, JobKey
from cotenant.query.cluster_change import ClusterWhatIf, what_if_cluster
from cotenant.query.explanation import Explanation, explain
from cotenant.query.job_move import MovePlan, plan_move
from cotenant.query.node_needs import node_needs
from cotenant.query.offer import offers
from cotenant.query.queue_tree import queue_tree
from cotenant.query.what_if import ProposalOutcome, WhatIf, what_if

T = TypeVar("T")
PLAY_S: Final = 2.0
"""CPU seconds of a played future in one answer."""
LISTED_MAX: Final = 5_000
"""Jobs of one list."""


def _clock() -> Callable[[], bool]:
    ends = time.thread_time() + PLAY_S
    return lambda: time.thread_time() < ends


@dataclass(slots=True, kw_only=True)
class Answers:
    cache: ObjectCache
    questions: Questions
    access: CallerAccess
    leadership: Leadership
    reserve_mib: int = 0
    """Memory that the operator adds to each worker's."""
    labelled_only: bool = False
    """True if queues serve only labelled namespaces."""

    async def explanation(self, request: web.Request, caller: Caller) -> documents.Document:
        """Explain why one job waits."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        key = f"{namespace}/{name}"
        about = await self._ask(caller, lambda subject: explain(subject.situation, key, subject.line))
        if about is not None:
            seen = about.as_seen(await self.access.sees(caller, about.namespaces))
            record = self.cache.jobs.get(key)
            status = documents.explanation_status(seen) | elsewhere(record)
            status |= (await self._observed([record])).get(key, {}) if record is not None else {}
            return documents.answer("Explanation", name, namespace, status)
        record = self.cache.jobs.get(key)
        if record is None:
            raise NotFoundError.of_job(namespace, name)
        status = aside_status(record, self.cache.priority_classes)
        if record.phase is Phase.SUSPENDED and record.job is not None:
            status |= await self._resumed(namespace, name, caller)
        return documents.answer("Explanation", name, namespace, status)

    async def _resumed(self, namespace: str, name: str, caller: Caller) -> documents.Document:
        """What would happen to a suspended job if it were resumed now."""
        change = {"job": name, "change": {"spec.suspend": False}}
        try:
            found = await self._played(change, namespace, caller)
        except (ProposalError, NotFoundError) as error:
            return {"ifResumed": str(error)}
        if found.outcome is ProposalOutcome.STARTS:
            return {"wouldStartIf": "it is resumed"}
        if found.outcome is ProposalOutcome.AFTER_EVICTIONS:
            return {"ifResumed": "it would start as soon as others have left"}
        return {"ifResumed": f"it would wait: {found.message}"}

    async def explanations(self, request: web.Request, caller: Caller) -> documents.Document:
        """Jobs of a namespace, or of all, that wait, hold GPUs or are set aside. Jobs ahead are counted, not listed."""
        namespace = request.match_info.get("namespace", "")

        def listed(subject: Subject) -> tuple[list[Explanation], Mapping[JobKey, Job]]:
            jobs = subject.situation.jobs
            keys = sorted(job.key for job in jobs.values() if namespace in ("", job.namespace))
            keys = [key for key in keys if key in self.cache.jobs][:LISTED_MAX]
            return [one for key in keys if (one := subject.summary(key)) is not None], jobs

        found, decided = await self._ask(caller, listed)
        sees = await self.access.sees(caller, {one for about in found for one in about.namespaces})
        records = [record for about in found if (record := self.cache.jobs.get(about.job)) is not None]
        answered = documents.explanation_list([one.as_seen(sees) for one in found], await self._observed(records))
        aside = islice(jobs_aside(self.cache, namespace, decided), LISTED_MAX - len(found))
        answered["items"] += [
            documents.answer("Explanation", one.name, one.namespace, aside_status(one, self.cache.priority_classes))
            for one in aside
        ]
        return answered

    async def _observed(self, records: Sequence[JobRecord]) -> dict[JobKey, documents.Document]:
        """What is seen of each of these jobs now."""
        use = await asyncio.to_thread(use_now, records, dict(self.cache.nodes.gpu_nodes))
        now = time.time()
        return {record.key: observed(record, use, now) for record in records}

    async def what_if(self, request: web.Request, caller: Caller) -> documents.Document:
        """Play a proposed job, or a change of one that waits."""
        namespace = request.match_info["namespace"]
        seen = await self._played(spec_of(await request.read()), namespace, caller)
        return documents.answer("WhatIf", seen.job.partition("/")[2], namespace, documents.what_if_status(seen))

    async def _played(self, spec: Mapping[str, Any], namespace: str, caller: Caller) -> WhatIf:
        """The answer as the caller may see it. Raises ProposalError."""
        job = proposed_job(
            spec, namespace, user=caller.user, cache=self.cache, reserve_mib=self.reserve_mib, now=time.time()
        )

        def asked(subject: Subject) -> WhatIf:
            return what_if(subject.situation, job, _clock())

        found = await self._ask(caller, asked)
        return found.as_seen(await self.access.sees(caller, found.namespaces))

    async def offers(self, request: web.Request, caller: Caller) -> documents.Document:
        """List what jobs of a namespace could get now."""
        namespace = request.match_info["namespace"]
        found = await self._ask(caller, lambda subject: offers(subject.situation, namespace))
        return documents.offer_list(namespace, found)

    async def queue_trees(self, _: web.Request, caller: Caller) -> documents.Document:
        """All queues with what they hold."""
        found = await self._ask(caller, lambda subject: queue_tree(subject.situation))
        budgets = {
            name: queue.status.budget.to_document()
            for name, queue in self.cache.queues.items()
            if queue.spec.budget is not None and queue.status.budget is not None
        }
        return documents.queue_tree_list(found, budgets)

    async def node_needs(self, _: web.Request, caller: Caller) -> documents.Document:
        """How many more nodes of each kind would start what waits."""
        found = await self._ask(caller, lambda subject: node_needs(subject.situation, _clock()))
        return documents.node_need_list(found)

    async def what_if_cluster(self, request: web.Request, caller: Caller) -> documents.Document:
        """Play a change of a queue, a node or a setting, for all jobs."""
        spec = spec_of(await request.read())
        proposal = cluster_proposal(spec, self.cache, labelled_only=self.labelled_only)

        def asked(subject: Subject) -> tuple[ClusterWhatIf, MovePlan | None]:
            changed = proposal.change(subject.situation)
            moved = next((one for one in changed.snapshot.jobs if one.key == changed.moved), None)
            found = what_if_cluster(subject.situation, changed, _clock)
            return found, None if moved is None else plan_move(subject.situation, moved)

        found, move = await self._ask(caller, asked)
        own = {move.job.partition("/")[0]} if move else set()
        sees = await self.access.sees(caller, found.namespaces | own)
        if move is not None and not all(map(sees, own)):
            namespace, _, name = move.job.partition("/")
            raise NotFoundError.of_job(namespace, name)
        status = documents.cluster_what_if_status(found.as_seen(sees)) | {"command": proposal.command}
        status |= {"move": documents.move_status(move)} if move else {}
        return documents.answer("ClusterWhatIf", "proposed", "", status)

    async def _ask(self, caller: Caller, question: Callable[[Subject], T]) -> T:
        return await self.questions.ask(annotated_user(caller.user), question)
