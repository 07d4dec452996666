"""Carries out what was decided: one write of a job's status, then what follows from it. All of it is safe to repeat.

The status write is the commit point: guarded by resourceVersion, it fails when anybody wrote in between; then nothing
else happens and the decision is forgotten. What follows (pods, deletions, Events) can be done again by any later leader
from the committed status alone. Before every write the Lease is asked: who does not lead, does not write.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cotenant.api.conversion.to_core import to_placement
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.client.kube import (
    PODS,
    TRAINING_JOBS,
    FencedError,
    Kube,
    Outcome,
    Reply,
    UnreachableError,
    version_of,
)
from cotenant.controller.client.merge_patch import patch
from cotenant.controller.cluster.cluster_view import World
from cotenant.controller.execution.event_recorder import Notes
from cotenant.controller.execution.pod_creator import Births, Born
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.pod_record import PodFacts
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.observation import Note, Step
from cotenant.controller.lifecycle.words import asks
from cotenant.controller.reports.slow_gpus import last_resort
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import LifecycleEvent
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Action, Admit, Evict, Resize, Verdict

log = logging.getLogger(__name__)

AGAIN_S = 1.0
"""Pause before something that did not work is tried again."""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of it, for the loop: look at the job again then, if at all."""

    again_at: float | None = None


@dataclass(slots=True, kw_only=True)
class Applier:
    kube: Kube
    world: World
    births: Births
    notes: Notes
    metrics: Metrics
    leads: Callable[[], bool]
    uncertain: dict[JobKey, Action] = field(default_factory=dict)
    """Commits whose answer never came: assumed to hold until the API server has said what it has."""

    async def step(self, record: JobRecord, step: Step) -> Done:
        """A step of the job's life: status, then Events, then the pods that must go or come."""
        now = time.time()
        if step.status is not None:
            if not await self._write(record, step.status):
                return Done(now + AGAIN_S)
            self._say(record, step.note)
        await self.delete(step.delete)
        if step.create:
            return await self._create(record)
        if step.delete_job and self.leads():
            await self.kube.delete(TRAINING_JOBS, record.name, record.namespace, uid=record.uid)
        return Done(step.look_again_at)

    async def admit(self, record: JobRecord, action: Admit) -> Done:
        """Commit the placement; only then make the pods."""
        now = time.time()
        isolation = self.world.fleet.level(action.placement)
        nodes = [node.node for node in action.placement.nodes]
        workers = action.placement.workers
        message = f"admitted: {workers} worker{'' if workers == 1 else 's'} on {_some(nodes)}"
        message += last_resort(action.placement, self.world.mirror.gpu_nodes)
        status = record.status.model_copy(update={"observed_generation": record.generation, "gpus": _asks(record)})
        status = status_transitions.admitted(status, action.placement, isolation, message, now, servers=record.servers)
        if not await self._commit(record, action, status):
            return Done(now + AGAIN_S)
        self._say(record, Note(reason="Admitted", message=message))
        committed = self.world.mirror.jobs.get(record.key)
        if committed is None or committed.uid != record.uid:
            return Done()
        if record.job is not None and record.job.metadata.creation_timestamp is not None:
            waited = now - record.job.metadata.creation_timestamp.timestamp()
            self.metrics.waited.labels(record.job.spec.queue).observe(max(0.0, waited))
        return await self._create(committed)

    async def evict(self, record: JobRecord, action: Evict) -> Done:
        """Write the eviction down, then end the pods."""
        now = time.time()
        kind = action.kind.value
        status = status_transitions.evicting(
            record.status,
            LifecycleEvent.EVICTED,
            kind=kind,
            message=action.message,
            now=now,
            in_favour_of=action.in_favour_of,
        )
        return await self._make_leave(record, action, status, Note(reason=kind, message=action.message))

    async def resize(self, record: JobRecord, action: Resize) -> Done:
        """Commit the new placement of an elastic job. Its next attempt starts when the pods of this one are gone."""
        now = time.time()
        before = to_placement(record.status.placement) if record.status.placement else None
        status = status_transitions.resized(
            record.status,
            action.placement,
            isolation=self.world.fleet.level(action.placement),
            message=action.message,
            milli=self.world.fleet.milli(before) if before else 0,
            now=now,
            servers=record.servers,
        )
        return await self._make_leave(record, action, status, Note(reason="Resized", message=action.message))

    async def _make_leave(
        self, record: JobRecord, action: Evict | Resize, status: TrainingJobStatus, note: Note
    ) -> Done:
        if not await self._commit(record, action, status):
            return Done(time.time() + AGAIN_S)
        self._say(record, note)
        pods = self.world.mirror.pods_of(record.uid).values()
        await self.delete(tuple(pod for pod in pods if pod.held and not pod.deleting))
        return Done(time.time())

    async def verdict(self, record: JobRecord, verdict: Verdict) -> Done:
        """Tell a job that waits why."""
        status = record.status.model_copy(update={"observed_generation": record.generation, "gpus": _asks(record)})
        news = record.status.pending is None or record.status.pending.reason != verdict.reason.value
        if await self._write(record, status_transitions.waiting(status, verdict, time.time())) and news:
            reason = verdict.reason
            self._say(record, Note(reason=reason.value, message=verdict.message, warning=reason.needs_change))
        return Done()

    async def delete(self, pods: tuple[PodFacts, ...]) -> None:
        """Ask pods to end, each by its uid, with the grace period that it was made with."""

        async def one(pod: PodFacts) -> None:
            if self.leads():
                reply = await self.kube.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
                if reply.done and reply.document.get("kind") == "Pod":
                    self.world.mirror.take(PODS, reply.document)
                elif reply.outcome in {Outcome.MISSING, Outcome.CONFLICT}:
                    self.world.mirror.gone(PODS, pod.namespace, pod.name, pod.uid)

        await gather_bounded([one(pod) for pod in pods])

    async def orphans(self, key: str, uid: str) -> Done:
        """Pods of a job that is gone: once the API server has confirmed that, they are ended."""
        namespace, name = key.split("/", 1)
        reply = await self.kube.get(TRAINING_JOBS, name, namespace)
        if reply.done and reply.document["metadata"]["uid"] == uid:
            self.world.mirror.take(TRAINING_JOBS, reply.document)
            return Done()
        pods = self.world.mirror.pods_of(uid).values()
        await self.delete(tuple(pod for pod in pods if not pod.deleting))
        return Done()

    async def resolve(self, record: JobRecord, action: Action) -> Done:
        """Ask what became of an uncertain commit: it holds, or it is forgotten."""
        reply = await self.kube.get(TRAINING_JOBS, record.name, record.namespace)
        del self.uncertain[record.key]
        if reply.done and version_of(reply.document) > record.version:
            self.world.mirror.take(TRAINING_JOBS, reply.document)
        self.world.settle(action, None)  # what was written is in the mirror now, which is read before the next decision
        return Done(time.time())

    async def _commit(self, record: JobRecord, action: Action, status: TrainingJobStatus) -> bool:
        """The write that makes an action true, or its assumption forgotten."""
        try:
            done = await self._write(record, status)
        except FencedError:
            self.world.settle(action, None)  # it was never sent
            raise
        except UnreachableError:
            self.uncertain[record.key] = action
            raise
        self.metrics.actions.labels(type(action).__name__, str(done).lower()).inc()
        if done:
            written = self.world.mirror.jobs.get(record.key)
            self.world.settle(action, written.version if written else record.version)
        else:
            self.world.settle(action, None)
        return done

    async def _write(self, record: JobRecord, status: TrainingJobStatus) -> bool:
        change = patch(record.raw_status, status)
        if not change:
            return True
        if not self.leads():
            return False
        body = {"metadata": {"resourceVersion": str(record.version), "uid": record.uid}, "status": change}
        reply = await self.kube.patch(
            TRAINING_JOBS, record.name, body, namespace=record.namespace, subresource="status"
        )
        if reply.done:
            self.world.mirror.take(TRAINING_JOBS, reply.document)
            if "phase" in change:
                self.metrics.transitions.labels(str(status.phase)).inc()
                log.info("%s: %s (%s)", record.key, status.phase, status.reason)
            return True
        await self._learn(record, reply)
        return False

    async def _learn(self, record: JobRecord, reply: Reply) -> None:
        """Why a write failed: somebody was faster, or the job is gone."""
        if reply.outcome is Outcome.REFUSED:
            log.error("the status of %s was refused (%d): %s", record.key, reply.code, reply.message)
            return
        fresh = await self.kube.get(TRAINING_JOBS, record.name, record.namespace)
        if fresh.done:
            self.world.mirror.take(TRAINING_JOBS, fresh.document)
        elif fresh.outcome is Outcome.MISSING:
            self.world.mirror.gone(TRAINING_JOBS, record.namespace, record.name, record.uid)

    async def _create(self, record: JobRecord) -> Done:
        if self.world.impossible(record, time.time()):
            return Done(time.time())  # the next step says so, and gives the placement up
        born = await self.births.bring(record)
        if born is Born.LATER:
            return Done(time.time() + AGAIN_S)
        return Done(time.time()) if born is Born.REFUSED else Done()

    def _say(self, record: JobRecord, note: Note | None) -> None:
        if note is not None:
            self.notes.say(record, note)


async def gather_bounded(calls: list[Awaitable[None]]) -> None:
    """All of them; the client bounds how many are in flight. The first error is raised after all have ended."""
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _asks(record: JobRecord) -> str | None:
    return asks(record.job.spec) if record.job else None


def _some(nodes: list[str]) -> str:
    if len(nodes) <= 4:
        return ", ".join(nodes)
    return f"{', '.join(nodes[:3])} and {len(nodes) - 3} more nodes"
