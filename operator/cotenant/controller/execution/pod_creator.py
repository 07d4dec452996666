"""Makes the objects of a committed placement: NetworkPolicy, Service and Secret first, as far as needed, then the pods.

Creating is idempotent: what exists and is ours is taken as made. What exists and belongs to an earlier job of the same
name is waited for; what belongs to somebody else, or is refused for good, is told to the job.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cotenant.controller.client.kube import (
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICES,
    Document,
    Kube,
    Outcome,
    Reply,
    Resource,
)
from cotenant.controller.cluster.cluster_view import World
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.manifests import server_pod, side_objects, worker_pod
from cotenant.controller.manifests.attempt import Attempt
from cotenant.controller.manifests.from_job import attempt_of
from cotenant.controller.settings import Settings
from cotenant.core.model.objects import JobKey


class Born(StrEnum):
    ALL = "All"
    LATER = "Later"
    """Something is in the way that will pass."""
    REFUSED = "Refused"
    """Something is in the way for good; `Births.refusals` has the words."""


@dataclass(slots=True)
class _Trouble:
    uid: str
    attempt: int
    around: bool = False
    """What stands beside the pods is made."""
    refused: str = ""
    delayed: str = ""


@dataclass(slots=True)
class Births:
    kube: Kube
    world: World
    settings: Settings
    leads: Callable[[], bool]
    _troubles: dict[JobKey, _Trouble] = field(default_factory=dict)

    def refusal(self, record: JobRecord) -> str:
        """Why the running attempt of the job can never start; empty when nothing stands in the way."""
        trouble = self._troubles.get(record.key)
        return trouble.refused if trouble and trouble.attempt == record.status.attempts else ""

    def delay(self, record: JobRecord) -> str:
        """Why the pods of the running attempt could not be made so far."""
        trouble = self._troubles.get(record.key)
        return trouble.delayed if trouble and trouble.attempt == record.status.attempts else ""

    def forget(self, key: JobKey) -> None:
        self._troubles.pop(key, None)

    async def bring(self, record: JobRecord) -> Born:
        if record.job is None or record.status.placement is None:
            return Born.ALL
        trouble = self._troubles.get(record.key)
        if trouble is None or (trouble.uid, trouble.attempt) != (record.uid, record.status.attempts):
            trouble = self._troubles[record.key] = _Trouble(record.uid, record.status.attempts)
        attempt = attempt_of(
            record.job, record.status.placement, record.status.attempts, self.world.fleet.gpus, self.settings
        )
        if not trouble.around:
            born = _worst(await asyncio.gather(*self._around(attempt, trouble)))
            if born is not Born.ALL:
                return born
            trouble.around = True
        born = _worst(await asyncio.gather(*self._pods(record, attempt, trouble)))
        if born is Born.ALL:
            trouble.delayed = ""
        return born

    def _around(self, attempt: Attempt, trouble: _Trouble) -> list[Coroutine[Any, Any, Born]]:
        """As far as needed: each object costs a write."""
        calls = [self._one(NETWORK_POLICIES, side_objects.network_policy(attempt, self.settings), trouble)]
        if attempt.needs_names:
            calls.append(self._one(SERVICES, side_objects.service(attempt), trouble))
        if attempt.needs_token:
            secret = side_objects.token_secret(attempt, secrets.token_hex(32))
            calls.append(self._one(SECRETS, secret, trouble))
        return calls

    def _pods(self, record: JobRecord, attempt: Attempt, trouble: _Trouble) -> list[Coroutine[Any, Any, Born]]:
        there = self.world.mirror.pods_of(record.uid)
        calls: list[Coroutine[Any, Any, Born]] = []
        for rank, node in enumerate(attempt.placement.nodes):
            if attempt.pod_name(rank) not in there:
                document = worker_pod.pod(attempt, rank, self.settings, self.world.fleet.path(node.node))
                calls.append(self._one(PODS, document, trouble))
        servers = (server_pod.pod(attempt, index, self.settings) for index in range(attempt.servers))
        missing = [document for document in servers if document["metadata"]["name"] not in there]
        return calls + [self._one(PODS, document, trouble) for document in missing]

    async def _one(self, resource: Resource, document: Document, trouble: _Trouble) -> Born:
        if not self.leads():
            return Born.LATER
        namespace = document["metadata"]["namespace"]
        reply = await self.kube.create(resource, document, namespace)
        if reply.done:
            if resource is PODS:
                self.world.mirror.take(PODS, reply.document)
            return Born.ALL
        if reply.outcome is Outcome.EXISTS:
            return await self._already(resource, document, trouble)
        return self._judge(resource, document, reply, trouble)

    async def _already(self, resource: Resource, document: Document, trouble: _Trouble) -> Born:
        """Ours from before a crash, a namesake on its way out, or somebody else's."""
        metadata = document["metadata"]
        found = await self.kube.get(resource, metadata["name"], metadata["namespace"])
        if not found.done:
            return Born.LATER
        owners = found.document["metadata"].get("ownerReferences") or []
        wanted = metadata["ownerReferences"][0]
        if any(owner["uid"] == wanted["uid"] for owner in owners):
            if resource is PODS:
                self.world.mirror.take(PODS, found.document)
            return Born.ALL
        what = f"{resource.plural}/{metadata['name']}"
        if any(owner["kind"] == wanted["kind"] for owner in owners):
            trouble.delayed = f"{what} of an earlier job of this name is still being removed"
            return Born.LATER
        trouble.refused = f"{what} exists and does not belong to this job; remove it, or give the job another name"
        return Born.REFUSED

    def _judge(self, resource: Resource, document: Document, reply: Reply, trouble: _Trouble) -> Born:
        what = f"{resource.plural}/{document['metadata']['name']}"
        if reply.code in {400, 422}:
            trouble.refused = f"the API server does not take {what}: {reply.message}"
            return Born.REFUSED
        trouble.delayed = f"{what} could not be made ({reply.code}): {reply.message}"
        return Born.LATER


def _worst(outcomes: Sequence[Born]) -> Born:
    for bad in (Born.REFUSED, Born.LATER):
        if bad in outcomes:
            return bad
    return Born.ALL
