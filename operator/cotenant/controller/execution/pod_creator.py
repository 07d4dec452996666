"""Makes the objects of a committed placement: NetworkPolicy, Service and Secret first, as far as needed, then the pods.

Creating is idempotent: what exists and is ours is taken as made. What exists and belongs to an earlier job of the same
name is waited for; what belongs to somebody else, or is refused for good, is told to the job.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine, Sequence
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
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.manifests import server_pod, side_objects, worker_pod
from cotenant.controller.manifests.attempt import Attempt
from cotenant.controller.manifests.from_job import attempt_of
from cotenant.controller.settings import Settings
from cotenant.core.model.objects import JobKey


class Creation(StrEnum):
    CREATED = "All"
    RETRY = "Later"
    """Something is in the way that will pass."""
    REJECTED = "Refused"
    """Something is in the way for good; `Births.refusals` has the words."""


@dataclass(slots=True)
class _Progress:
    uid: str
    attempt: int
    side_objects_made: bool = False
    """What stands beside the pods is made."""
    rejection: str = ""
    delay: str = ""


@dataclass(slots=True)
class PodCreator:
    kube: Kube
    cluster: ClusterView
    settings: Settings
    _progress: dict[JobKey, _Progress] = field(default_factory=dict)

    def rejection(self, record: JobRecord) -> str:
        """Why the running attempt of the job can never start; empty when nothing stands in the way."""
        trouble = self._progress.get(record.key)
        return trouble.rejection if trouble and trouble.attempt == record.status.attempts else ""

    def delay(self, record: JobRecord) -> str:
        """Why the pods of the running attempt could not be made so far."""
        trouble = self._progress.get(record.key)
        return trouble.delay if trouble and trouble.attempt == record.status.attempts else ""

    def forget(self, key: JobKey) -> None:
        self._progress.pop(key, None)

    async def create(self, record: JobRecord) -> Creation:
        if record.job is None or record.status.placement is None:
            return Creation.CREATED
        trouble = self._progress.get(record.key)
        if trouble is None or (trouble.uid, trouble.attempt) != (record.uid, record.status.attempts):
            trouble = self._progress[record.key] = _Progress(record.uid, record.status.attempts)
        attempt = attempt_of(
            record.job, record.status.placement, record.status.attempts, self.cluster.nodes.gpus, self.settings
        )
        if not trouble.side_objects_made:
            born = _worst(await asyncio.gather(*self._side_objects(attempt, trouble)))
            if born is not Creation.CREATED:
                return born
            trouble.side_objects_made = True
        born = _worst(await asyncio.gather(*self._pods(record, attempt, trouble)))
        if born is Creation.CREATED:
            trouble.delay = ""
        return born

    def _side_objects(self, attempt: Attempt, trouble: _Progress) -> list[Coroutine[Any, Any, Creation]]:
        """As far as needed: each object costs a write."""
        calls = [self._create_object(NETWORK_POLICIES, side_objects.network_policy(attempt, self.settings), trouble)]
        if attempt.needs_names:
            calls.append(self._create_object(SERVICES, side_objects.service(attempt), trouble))
        if attempt.needs_token:
            secret = side_objects.token_secret(attempt, secrets.token_hex(32))
            calls.append(self._create_object(SECRETS, secret, trouble))
        return calls

    def _pods(self, record: JobRecord, attempt: Attempt, trouble: _Progress) -> list[Coroutine[Any, Any, Creation]]:
        there = self.cluster.cache.pods_of(record.uid)
        calls: list[Coroutine[Any, Any, Creation]] = []
        for rank, node in enumerate(attempt.placement.nodes):
            if attempt.pod_name(rank) not in there:
                document = worker_pod.pod(attempt, rank, self.settings, self.cluster.nodes.isolation_path(node.node))
                calls.append(self._create_object(PODS, document, trouble))
        servers = (server_pod.pod(attempt, index, self.settings) for index in range(attempt.servers))
        missing = [document for document in servers if document["metadata"]["name"] not in there]
        return calls + [self._create_object(PODS, document, trouble) for document in missing]

    async def _create_object(self, resource: Resource, document: Document, progress: _Progress) -> Creation:
        namespace = document["metadata"]["namespace"]
        reply = await self.kube.create(resource, document, namespace)
        if reply.done:
            if resource is PODS:
                self.cluster.cache.put(PODS, reply.document)
            return Creation.CREATED
        if reply.outcome is Outcome.EXISTS:
            return await self._adopt(resource, document, progress)
        return self._note_failure(resource, document, reply, progress)

    async def _adopt(self, resource: Resource, document: Document, progress: _Progress) -> Creation:
        """Ours from before a crash, a namesake on its way out, or somebody else's."""
        metadata = document["metadata"]
        found = await self.kube.get(resource, metadata["name"], metadata["namespace"])
        if not found.done:
            return Creation.RETRY
        owners = found.document["metadata"].get("ownerReferences") or []
        wanted = metadata["ownerReferences"][0]
        if any(owner["uid"] == wanted["uid"] for owner in owners):
            if resource is PODS:
                self.cluster.cache.put(PODS, found.document)
            return Creation.CREATED
        what = f"{resource.plural}/{metadata['name']}"
        if any(owner["kind"] == wanted["kind"] for owner in owners):
            progress.delay = f"{what} of an earlier job of this name is still being removed"
            return Creation.RETRY
        progress.rejection = f"{what} exists and does not belong to this job; remove it, or give the job another name"
        return Creation.REJECTED

    def _note_failure(self, resource: Resource, document: Document, reply: Reply, progress: _Progress) -> Creation:
        what = f"{resource.plural}/{document['metadata']['name']}"
        if reply.code in {400, 422}:
            progress.rejection = f"the API server does not take {what}: {reply.message}"
            return Creation.REJECTED
        progress.delay = f"{what} could not be made ({reply.code}): {reply.message}"
        return Creation.RETRY


def _worst(outcomes: Sequence[Creation]) -> Creation:
    for bad in (Creation.REJECTED, Creation.RETRY):
        if bad in outcomes:
            return bad
    return Creation.CREATED
