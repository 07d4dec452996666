"""Ends pods: those that a decision names, and those whose job is gone. Deleting is safe to repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.controller.client.kube import PODS, TRAINING_JOBS, Kube, Outcome
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.pod_record import PodRecord


@dataclass(slots=True, kw_only=True)
class PodDeleter:
    kube: Kube
    cache: ObjectCache

    async def delete(self, pods: Iterable[PodRecord]) -> None:
        """Ask pods to end, each by its uid, with the grace period that it was made with.

        The client bounds how many calls are in flight. The first error is raised after all calls have ended.
        """
        for outcome in await asyncio.gather(*(self._delete(pod) for pod in pods), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def delete_orphans(self, job: JobId) -> None:
        """End the pods of a job that is gone, once the API server has confirmed that it is."""
        reply = await self.kube.get(TRAINING_JOBS, job.name, job.namespace)
        if reply.done and reply.document["metadata"]["uid"] == job.uid:
            self.cache.put(TRAINING_JOBS, reply.document)
        else:
            await self.delete(pod for pod in self.cache.pods_of(job).values() if not pod.deleting)

    async def _delete(self, pod: PodRecord) -> None:
        reply = await self.kube.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
        if reply.done and reply.document.get("kind") == "Pod":
            self.cache.put(PODS, reply.document)
        elif reply.outcome in {Outcome.MISSING, Outcome.CONFLICT}:
            self.cache.remove(PODS, pod.namespace, pod.name, pod.uid)
