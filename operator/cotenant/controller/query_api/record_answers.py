"""Questions about the past: finished runs, decisions, and the inputs of the last decision and of a sample."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from cotenant import names
from cotenant.controller.decision_log.recorder import DecisionRecorder
from cotenant.controller.query_api import record_documents
from cotenant.controller.query_api.access import CallerAccess
from cotenant.controller.query_api.advice_documents import advice_document, advice_list, classes_of
from cotenant.controller.query_api.documents import Document
from cotenant.controller.query_api.front_proxy import Caller
from cotenant.controller.query_api.questions import NoSituationError, NotFoundError
from cotenant.core.model.objects import Period
from cotenant.core.runtimes.templates import template_of
from cotenant.decision_log.runs import RunRecord
from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.showback.periods import start_of
from cotenant.decision_log.showback.report import ShowbackLine, costs_by_uid, priced

LISTED: Final = 200
LISTED_MAX: Final = 5_000
CAPSULE: Final = "current"
"""Name of the capsule of the current decision. Older ones are named by the digest of their inputs."""


@dataclass(slots=True, kw_only=True)
class RecordAnswers:
    recorder: DecisionRecorder
    access: CallerAccess

    async def runs(self, request: web.Request, caller: Caller) -> Document:
        """Runs of a namespace, or of all: the newest first, `?limit=` of them."""
        namespace, most = request.match_info.get("namespace", ""), _limit(request)
        found = await asyncio.to_thread(self.recorder.archive.runs, namespace, most=most)
        sees = await self.access.sees(caller, {one for run in found for one in run.namespaces})
        costs = await self._costs(namespace, {run.uid for run in found})
        return record_documents.run_list((run.as_seen(sees) for run in found), costs, self.recorder.prices.currency)

    async def run(self, request: web.Request, caller: Caller) -> Document:
        """The newest run of a name, finished or not."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        found = await asyncio.to_thread(self.recorder.run, f"{namespace}/{name}", self.recorder.clock())
        if found is None:
            raise NotFoundError(f'runs.{names.QUERY_GROUP} "{name}" not found in namespace "{namespace}"')
        sees = await self.access.sees(caller, found.namespaces)
        costs = await self._costs(namespace, {found.uid})
        cost, currency = costs.get(found.uid), self.recorder.prices.currency
        return record_documents.run_document(found.as_seen(sees), cost, currency)

    async def advice(self, request: web.Request, _: Caller) -> Document:
        """Suggested resources for a job, from the runs of its template."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        template = template_of(key := f"{namespace}/{name}")
        known = await asyncio.to_thread(self._runs, namespace)
        found = [one for one in known if template_of(f"{namespace}/{one.name}") == template]
        if not found:
            raise NotFoundError(f'no run of {name}, nor of one like it, is known in namespace "{namespace}"')
        facts = classes_of(self.recorder.cache.nodes.gpu_nodes)
        return advice_document(key, found, facts, self.recorder.prices, int(self.recorder.clock()))

    async def advices(self, request: web.Request, _: Caller) -> Document:
        """The same for the templates of a namespace, latest run first."""
        known = await asyncio.to_thread(self._runs, request.match_info["namespace"])
        facts = classes_of(self.recorder.cache.nodes.gpu_nodes)
        now = int(self.recorder.clock())
        return advice_list(known, facts, self.recorder.prices, now, LISTED)

    def _runs(self, namespace: str) -> list[RunRecord]:
        """Unfinished runs, then finished ones, newest first."""
        jobs = [one for one in list(self.recorder.cache.jobs.values()) if one.namespace == namespace]
        going_on = [self.recorder.run(one.key) for one in jobs if one.status.placement is not None]
        return [one for one in going_on if one is not None] + self.recorder.archive.runs(namespace, most=LISTED_MAX)

    async def showbacks(self, request: web.Request, _: Caller) -> Document:
        """GPU time and cost of the jobs of a namespace, or of all, from `?since=` until `?until=`."""
        now = int(self.recorder.clock())
        namespace = request.match_info.get("namespace", "")
        since = _number(request, "since", start_of(Period.MONTH, now))
        until = _number(request, "until", now + 1)
        found = await self._charges(namespace)
        prices = self.recorder.prices
        return record_documents.showback_list(priced(found, since, until, prices), prices.currency, (since, until))

    async def decisions(self, request: web.Request, _: Caller) -> Document:
        """Decisions of the newest cycles. They name jobs of all namespaces."""
        found = await asyncio.to_thread(self.recorder.archive.cycles, _limit(request))
        return record_documents.decision_list(found)

    async def capsules(self, _: web.Request, __: Caller) -> Document:
        """Past decisions whose inputs are all kept, newest first."""
        return record_documents.capsule_list(self.recorder.capsules.newest_first())

    async def capsule(self, request: web.Request, _: Caller) -> Document:
        """All inputs of the current decision, or of a past one by its digest."""
        name = request.match_info["name"]
        if name != CAPSULE:
            kept = self.recorder.capsules.get(name)
            if kept is None:
                raise NotFoundError(f'capsules.{names.QUERY_GROUP} "{name}" not found: it is not kept, or not any more')
            return await asyncio.to_thread(record_documents.kept_capsule_document, kept)
        capsule = self.recorder.capsule()
        if capsule is None:
            raise NoSituationError("the operator has not decided yet; ask again in some seconds")
        return await asyncio.to_thread(record_documents.capsule_document, CAPSULE, capsule)

    async def _charges(self, namespace: str) -> list[UsageCharge]:
        """All charges of a namespace, or of all."""
        unrecorded = self.recorder.unrecorded_charges(namespace)
        recorded = await asyncio.to_thread(self.recorder.archive.charges, namespace)
        written = set(recorded)  # while this was asked
        return recorded + [one for one in unrecorded if one not in written]

    async def _costs(self, namespace: str, uids: Collection[str]) -> dict[str, ShowbackLine]:
        """Job uid → cost of its runs in the ledger; empty if there are no prices."""
        prices, until = self.recorder.prices, int(self.recorder.clock()) + 1
        if not prices:
            return {}
        charges = await self._charges(namespace)
        return await asyncio.to_thread(costs_by_uid, [one for one in charges if one.uid in uids], until, prices)


def _number(request: web.Request, name: str, default: int) -> int:
    asked = request.query.get(name, "")
    return int(asked) if asked.isdecimal() and len(asked) < 12 else default


def _limit(request: web.Request) -> int:
    return min(LISTED_MAX, max(1, _number(request, "limit", LISTED)))
