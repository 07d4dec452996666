"""Ends pods: those that a decision names, and those whose job is gone. Deletions may be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.controller.client.kube import PODS, TRAINING_JOBS, Kube, Outcome
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.pods.pod_record import PodRecord
from cotenant.controller.lifecycle.observation import ReconcileResult


@dataclass(slots=True, kw_only=True)
class PodDeleter:
    kube: Kube
    cache: ObjectCache
    max_grace_s: int

    async def delete(self, pods: Iterable[PodRecord], grace_s: int | None = None) -> str:
        """Ask pods to end, each by its uid, with its own grace period or with this one.

        The grace period is at most the cluster's maximum, because a kubelet keeps to the first one that it gets
        (kubernetes/kubernetes#83916). Returns the first refusal as a sentence; empty if there is none. The client
        bounds the calls in flight. The first error is raised after all calls have ended.
        """
        refusals = []
        for outcome in await asyncio.gather(*(self._delete(pod, grace_s) for pod in pods), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            refusals.append(outcome)
        return next(filter(None, refusals), "")

    async def delete_orphans(self, job: JobId, result: ReconcileResult) -> str:
        """End the pods of a deleted job, once the API server has confirmed the deletion. Returns a refusal."""
        reply = await self.kube.get(TRAINING_JOBS, job.name, job.namespace)
        if reply.done and reply.document["metadata"]["uid"] == job.uid:
            self.cache.put(TRAINING_JOBS, reply.document)
            return ""
        if not reply.done and reply.outcome is not Outcome.MISSING:
            return f"the API server does not say whether job {job.name} is gone ({reply.code}): {reply.message}"
        return await self.carry_out(result)

    async def carry_out(self, result: ReconcileResult) -> str:
        """Make all deletions of a step, first and forced ones. Returns the first refusal."""
        refused = await self.delete(result.delete_pods)
        for again in result.forced_deletions:
            refused = await self.delete(again.pods, again.grace_s) or refused
        return refused

    async def _delete(self, pod: PodRecord, grace_s: int | None) -> str:
        if grace_s is None and pod.grace_s > self.max_grace_s:
            grace_s = self.max_grace_s
        reply = await self.kube.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_s=grace_s)
        if reply.done and reply.document.get("kind") == "Pod":
            self.cache.put(PODS, reply.document)
        elif reply.outcome in {Outcome.MISSING, Outcome.CONFLICT}:
            self.cache.remove(PODS, pod.namespace, pod.name, pod.uid)
        elif not reply.done:
            return f"pod {pod.name} could not be deleted ({reply.code}): {reply.message}"
        return ""
