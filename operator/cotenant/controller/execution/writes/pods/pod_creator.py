"""Makes the objects of a committed placement: NetworkPolicy, Service and Secret first, if needed, then the pods.

The token of an attempt that a resize ended is deleted here; every other token is deleted by the write that ends its
attempt. Otherwise a job that starts again and again would fill its namespace with Secrets.

Creating may be repeated. An object of this job that exists counts as made; a Secret is recognized by its name alone. An
object of an earlier job of the same name is waited for. A refusal ends the attempt as one that never ran: quotas,
webhooks and policies refuse with any code, and may accept later. The job fails for good only if an object of another
owner is in the way, or if the API server's own validation names a field that the job's author wrote.

A pod is unsettled from the call that creates it until it is seen, or known not to exist. If the job is deleted while
the answer is on its way or lost, the GPUs must not be handed out yet.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

from cotenant import names
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.controller.client.kube import (
    PODS,
    SECRETS,
    Document,
    FailedWebhookError,
    FailingServerError,
    Kube,
    Outcome,
    Reply,
    Resource,
)
from cotenant.controller.cluster.nodes.cluster_nodes import ClusterNodes
from cotenant.controller.execution.writes.pods.base_network_policies import BaseNetworkPolicies
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories, JobMemory, ObjectCreation
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.informers.pods.pod_identity import PodIdentity, identity_of
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle.policies.start_obstacles import EXEMPT
from cotenant.controller.manifests import evaluator_pod, server_pod, worker_pod
from cotenant.controller.manifests.attempt import Attempt, token_secret_name
from cotenant.controller.manifests.from_job import attempt_of
from cotenant.controller.manifests.quota_amounts import demanded_by
from cotenant.controller.manifests.side_objects import side_objects
from cotenant.controller.settings import Settings
from cotenant.core.model.objects import Placement

Manifests: TypeAlias = list[tuple[Resource, Document]]


class Creation(StrEnum):
    CREATED = "Created"
    RETRY = "Retry"
    """Something is in the way that will pass."""
    REFUSED = "Refused"
    """An object was refused for now; the job's `ObjectCreation` has the reason."""
    REJECTED = "Rejected"
    """Something is in the way for good; the job's `ObjectCreation` has the reason."""


@dataclass(slots=True, kw_only=True)
class PodCreator:
    kube: Kube
    cache: ObjectCache
    nodes: ClusterNodes
    memories: JobMemories
    base_network_policies: BaseNetworkPolicies
    settings: Settings

    async def create(self, record: JobRecord) -> Creation:
        if record.job is None or record.placement is None:
            return Creation.CREATED
        number, memory = record.status.attempts, self.memories[record.id]
        creation = memory.creation = memory.creation_of(number) or ObjectCreation(number)
        creation.delay = None
        memory.attempts = max(memory.attempts, number)
        attempt = self._attempt(record, record.job, record.placement, creation)
        # 1. What stands beside the pods, once for each attempt.
        if not creation.side_objects_made:
            if record.is_elastic and number > 1:  # a resize begins the next attempt without an end of the one before
                await self.kube.delete(SECRETS, token_secret_name(record.uid, number - 1), record.namespace)
            closed = attempt.is_one_pod and self.base_network_policies.is_in_force(attempt.namespace)
            objects = side_objects(attempt, secrets.token_hex(32), self.settings, closed_by_base=closed)
            created = await self._create_all(objects, memory)
            if created is not Creation.CREATED:
                return created
            creation.side_objects_made = True
        # 2. The pods that are not there, each after what its isolation needs beside it.
        beside, missing = self._missing_pods(attempt, self.cache.pods_of(record.id))
        created = await self._create_all(beside, memory)
        if created is not Creation.CREATED:
            return created
        memory.unsettled.update(_unsettled_pods(attempt, {document["metadata"]["name"] for _, document in missing}))
        return await self._create_all(missing, memory)

    async def create_evaluator(self, record: JobRecord) -> None:
        """Make the pod of the evaluator. A refusal is kept in the job's memory, because it does not end the attempt."""
        if record.job is None or record.placement is None or self.cache.job(record.id) is None:
            return
        number, memory = record.status.attempts, self.memories[record.id]
        known = (memory.creation, memory.evaluator_creation)
        counted = frozenset().union(*(one.counted for one in known if one is not None and one.attempt == number))
        creation = memory.evaluator_creation = ObjectCreation(number, counted=counted)
        attempt = self._attempt(record, record.job, record.placement, creation)
        beside = self.cache.volumes.keeps_on_one_node(record.namespace, record.job.spec)
        made = evaluator_pod.pod(attempt, self.settings, beside_rank_0=beside)
        await self._create_object(PODS, made, memory, creation, counted)
        self.cache.mark_changed([record.id])

    def _attempt(self, record: JobRecord, job: TrainingJob, placement: Placement, creation: ObjectCreation) -> Attempt:
        labels, gpus = self.cache.namespaces.get(record.namespace, {}), self.nodes.gpus
        attempt = attempt_of(job, record.status, placement, gpus, self.settings, of_namespace=labels)
        return replace(attempt, counted=creation.counted)

    def _missing_pods(self, attempt: Attempt, there: Container[str]) -> tuple[Manifests, Manifests]:
        """Side objects of the missing pods, and the pods."""
        nodes = attempt.placement.nodes
        beside: Manifests = []
        missing: Manifests = []
        for rank, node in enumerate(nodes):
            if attempt.pod_name(rank) not in there:
                rendered = worker_pod.pod(attempt, rank, self.settings, self.nodes.isolation_on(node.node))
                beside += rendered.side_objects
                missing.append((PODS, rendered.pod))
        for index in range(attempt.servers):
            if attempt.pod_name(len(nodes) + index) not in there:
                missing.append((PODS, server_pod.pod(attempt, index, self.settings)))
        return beside, missing

    async def _create_all(self, objects: Iterable[tuple[Resource, Document]], memory: JobMemory) -> Creation:
        """Create all of them, and return the worst result. The first error is raised after all calls have ended."""
        assert memory.creation is not None
        creation = memory.creation
        named = creation.counted  # before the first answer: all of these documents name the same
        calls = (self._create_object(resource, document, memory, creation, named) for resource, document in objects)
        outcomes = []
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            outcomes.append(outcome)
        return _worst(outcomes)

    async def _create_object(
        self, resource: Resource, document: Document, memory: JobMemory, creation: ObjectCreation, named: frozenset[str]
    ) -> Creation:
        try:
            reply = await self.kube.create(resource, document, document["metadata"]["namespace"])
        except FailedWebhookError as error:
            reply = Reply(Outcome.REFUSED, message=str(error), code=500)
        except FailingServerError as error:
            creation.delay = f"{_named(resource, document)} could not be made: {error}"
            raise
        if resource is PODS and not (demanded := demanded_by(reply.message)) <= named:
            creation.counted |= demanded
            created = Creation.RETRY
        else:
            created = await self._outcome(reply, resource, document, creation)
        if resource is PODS:  # with an answer it is known; else an error has been raised, and it stays unsettled
            memory.unsettled.pop(document["metadata"]["name"], None)
            self._look_again_if_gone(memory.id)
        return created

    async def _outcome(
        self, reply: Reply, resource: Resource, document: Document, creation: ObjectCreation
    ) -> Creation:
        if reply.done:
            if resource is PODS:
                self.cache.put(PODS, reply.document)
            return Creation.CREATED
        if reply.outcome is Outcome.EXISTS:
            # A Secret is not read: its name has the job's uid and the attempt, so it is this one.
            return Creation.CREATED if resource is SECRETS else await self._adopt(resource, document, creation)
        return _note_failure(resource, document, reply, creation)

    async def settle(self, job: JobId) -> None:
        """Find out which of the unsettled pods exist. None is created meanwhile."""
        unsettled = self.memories[job].unsettled
        for name in list(unsettled):
            found = await self.kube.get(PODS, name, job.namespace)
            if found.done:
                self.cache.put(PODS, found.document)
            if found.done or found.outcome is Outcome.MISSING:
                del unsettled[name]
        self.cache.mark_changed([job])

    def _look_again_if_gone(self, job: JobId) -> None:
        """Mark a deleted job: what is counted of it changes with its pods, perhaps without an event."""
        if self.cache.job(job) is None:
            self.cache.mark_changed([job])

    async def _adopt(self, resource: Resource, document: Document, creation: ObjectCreation) -> Creation:
        """Judge an object that exists already: our own from before a crash, that of an earlier job of the same name, or
        another owner's.
        """
        metadata = document["metadata"]
        found = await self.kube.get(resource, metadata["name"], metadata["namespace"])
        if not found.done:
            return Creation.RETRY
        owners = found.document["metadata"].get("ownerReferences") or []
        wanted = metadata["ownerReferences"][0]
        if resource is PODS:
            identity = identity_of(found.document)  # its spec says whose it is; owners can be edited
            ours = identity is not None and identity.job.uid == wanted["uid"]
        else:
            ours = _made_by_the_operator(found.document["metadata"], wanted)
        if ours and resource is PODS:
            self.cache.put(PODS, found.document)
        if ours:
            return Creation.CREATED
        what = _named(resource, document)
        if any(_is_job(owner) and owner["uid"] != wanted["uid"] for owner in owners):
            creation.delay = f"{what} of an earlier job of this name is still being removed"
            return Creation.RETRY
        creation.refusal = f"{what} exists and does not belong to this job; remove it, or give the job another name"
        return Creation.REFUSED


def _unsettled_pods(attempt: Attempt, missing: Container[str]) -> dict[str, PodRecord]:
    """Name → worker pod as it will be observed, for these names."""
    job, pods = JobId(attempt.namespace, attempt.job, attempt.uid), {}
    for rank, node in enumerate(attempt.placement.nodes):
        if (name := attempt.pod_name(rank)) in missing:
            asked = attempt.amounts_on(rank)
            identity = PodIdentity(
                job=job, attempt=attempt.number, node_rank=rank, placement=node, cpu_milli=asked.cpu_milli,
                scratch_mib=asked.scratch_mib,
            )  # fmt: skip
            pods[name] = PodRecord(
                namespace=job.namespace, name=name, uid="", version=0, worker=identity, queue_label=attempt.queue,
                node=node.node, requests=asked,
            )  # fmt: skip
    return pods


def _is_job(owner: Document) -> bool:
    """True if it names a TrainingJob; a kind alone is not enough: anybody may name one of another group."""
    group: str = str(owner["apiVersion"]).partition("/")[0]
    return (group, owner["kind"]) == (names.GROUP, "TrainingJob")


def _made_by_the_operator(metadata: Document, owner: Document) -> bool:
    """True if it is owned by the job and carries the label that only the operator may give.

    A uid alone is not enough: a tenant can read the job's uid and write it into the owner reference of another kind.
    """
    owners, labels = metadata.get("ownerReferences") or [], metadata.get("labels") or {}
    by_the_job = any(_is_job(each) and each.get("uid") == owner["uid"] for each in owners)
    return by_the_job and labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY


def _named(resource: Resource, document: Document) -> str:
    return f"{resource.plural}/{document['metadata']['name']}"


def _note_failure(resource: Resource, document: Document, reply: Reply, creation: ObjectCreation) -> Creation:
    what = _named(resource, document)
    if reply.code == 422 and reply.fields and all(_is_of_the_author(document, field) for field in reply.fields):
        creation.rejection = f"the API server does not take {what}: {reply.message}"
        return Creation.REJECTED
    if reply.outcome is Outcome.REFUSED:
        changed = any(words in reply.message for words in _POLICY_WORDS)
        hint = f". Something changed the pod on the way. {EXEMPT}" if changed else ""
        creation.refusal = f"{what} was refused ({reply.code}): {reply.message}{hint}"
        return Creation.REFUSED
    creation.delay = f"{what} could not be made ({reply.code}): {reply.message}"
    return Creation.RETRY


_POLICY_WORDS = ("a pod of the operator", "the container of the operator's pod", "a volume of the operator's pods")
"""How the chart's policy about worker pods begins. It takes every pod as the operator writes it."""
_OF_THE_AUTHOR = frozenset({"env", "volumeMounts", "image", "command", "args"})


def _is_of_the_author(document: Document, field: str) -> bool:
    """True for a field of the pod that comes from the job, such as `spec.volumes[3].name`, if the operator sent it so:
    not for requests and limits, which a LimitRange completes, nor for what a mutating policy appended.
    """
    parts = re.findall(r"[^.\[\]]+", field)
    of_a_container = parts[:2] == ["spec", "containers"] and len(parts) > 3 and parts[3] in _OF_THE_AUTHOR
    if document["kind"] != "Pod" or not (of_a_container or parts[:2] == ["spec", "volumes"]):
        return False
    at: Any = document
    for part in parts:
        if isinstance(at, list) and not (part.isdigit() and int(part) < len(at)):
            return False
        at = at[int(part)] if isinstance(at, list) else at.get(part, {}) if isinstance(at, dict) else {}
    return True


def _worst(outcomes: Sequence[Creation]) -> Creation:
    for bad in (Creation.REJECTED, Creation.REFUSED, Creation.RETRY):
        if bad in outcomes:
            return bad
    return Creation.CREATED
