"""The keyed reconciler of one composite kind: it observes, decides and writes, for each object by itself.

It takes a step for an object if the object or one that it owns has changed, if its decision asked for another look,
and, after a pause, if a step has failed. An object has at most one step under way; a slow one delays no other. A
replica decides nothing before it has taken over: a sweep whose jobs it does not know yet would make others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from cotenant.controller.client.kube import (
    Document,
    FailedWebhookError,
    FencedError,
    Kube,
    Listing,
    RefusedError,
    Resource,
    UnreachableError,
)
from cotenant.controller.composites.carrying_out import CompositeWriter, StaleError
from cotenant.controller.composites.composite import Composite, Create, Observed, Writes
from cotenant.controller.composites.compute_turns import ComputeTurns
from cotenant.controller.composites.failures import (
    Failure,
    OwnershipError,
    failure_after,
    with_failure,
    with_success,
)
from cotenant.controller.composites.owned_objects import OwnedObjects
from cotenant.controller.execution.loop.work_queue import WorkQueue
from cotenant.controller.execution.writes.event_recorder import EventRecorder
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.informers.quarantine import Stage
from cotenant.controller.telemetry.logs import error_text
from cotenant.controller.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Shortest pause before the next look: after an answer that was lost, after a conflict, and if a decision asks."""
TAKEN_S: Final = 15.0
"""A name that was in use is tried again after this time."""
LOOK_S: Final = 5.0
"""Longest sleep. Leadership may have begun without an event."""
STEPS_MAX: Final = 8
"""Steps that may be under way at once, each of another object."""


class CompositeController:
    """Reconciler of one kind. `kube` refuses writes while leadership is not held.

    `has_taken_over` returns whether this replica leads and has listed the cluster since it began to. Whoever makes it
    true calls `look_at_all`.
    """

    def __init__(
        self,
        kube: Kube,
        composite: Composite,
        event_recorder: EventRecorder,
        metrics: Metrics,
        *,
        has_taken_over: Callable[[], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self.composite, self._clock = kube, composite, clock
        self._has_taken_over = has_taken_over
        self._event_recorder, self._metrics = event_recorder, metrics
        self.objects = OwnedObjects(composite, self.look_at)
        self._writer = CompositeWriter(kube=kube, composite=composite, objects=self.objects)
        self._queue: WorkQueue[str] = WorkQueue()
        self._failures: dict[str, Failure] = {}
        self._taken: dict[str, dict[str, float]] = {}
        """Key → names in use, each with the time until which it counts as in use."""
        self._wake = asyncio.Event()
        self._steps = asyncio.Semaphore(STEPS_MAX)
        self._turns = ComputeTurns()
        self._tasks: set[asyncio.Task[None]] = set()

    def look_at(self, key: str) -> None:
        """Take a step for this object soon."""
        self._queue.add(key)
        self._wake.set()

    def look_at_all(self) -> None:
        """Take a step for every object: after a take-over, or after a change that all of them depend on."""
        for key in self.objects:
            self.look_at(key)

    def put(self, resource: Resource, document: Document, deleted: bool = False) -> None:
        """Take in one object of any kind."""
        self.objects.put(resource, document, deleted)

    def replace(self, resource: Resource, listing: Listing) -> None:
        """Take in a whole list of any kind."""
        self.objects.replace(resource, listing)
        self._wake.set()

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                await self._wait()
                self._wake.clear()
                for key in self._queue.get(self._clock()) if self._acts else ():
                    task = asyncio.create_task(self._step(key), name=f"{self.composite.resource.plural} {key}")
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        finally:
            for task in self._tasks:
                task.cancel()

    @property
    def _acts(self) -> bool:
        return self._has_taken_over() and self.objects.synced

    async def _wait(self) -> None:
        due = self._queue.next_at() if self._acts else None
        pause = LOOK_S if due is None else min(LOOK_S, max(0.0, due - self._clock()))
        try:
            await asyncio.wait_for(self._wake.wait(), pause)
        except TimeoutError:
            return

    async def _step(self, key: str) -> None:
        try:
            async with self._steps:
                await self.reconcile(key)
        except FencedError:
            self._queue.add_after(key, self._clock() + RETRY_S)  # of use only where this replica leads again
        except UnreachableError as error:
            log.warning("%s %s: %s; tried again soon", self.composite.kind, key, error)
            self._queue.add_after(key, self._clock() + RETRY_S)
        finally:
            self._queue.done(key)
            self._wake.set()

    async def reconcile(self, key: str) -> None:
        """Take the next step of one object. Only UnreachableError is raised; any other exception becomes the object's
        failure.
        """
        observed, now = self.objects.observed(key), self._clock()
        if observed is None or "deletionTimestamp" in observed.document["metadata"]:
            self._failures.pop(key, None)
            self._taken.pop(key, None)
            return
        observed = self._with_taken(observed, now)
        failure = self._failures.get(key)
        held = failure if failure is not None and failure.holds(observed.generation, now) else None
        if held is not None:
            self._queue.add_after(key, held.retry_at)
            if held.stage is not Stage.REFUSAL:
                return
        stage = Stage.RECONCILE
        try:
            observed, writes = await self._decide(observed, now)
            stage = Stage.EXECUTION
            await self._carry_out(observed, writes if held is None else writes.without_creations, now, held)
        except FailedWebhookError as error:
            await self._contain(observed, Stage.REFUSAL, RefusedError(str(error)), now)
        except UnreachableError:
            raise
        except StaleError:
            self._queue.add_after(key, now + RETRY_S)
        except Exception as error:
            if held is None:  # else its pause is not prolonged by what was tried meanwhile
                refused = isinstance(error, RefusedError | OwnershipError)
                await self._contain(observed, Stage.REFUSAL if refused else stage, error, now)
        else:
            if held is None:
                self._failures.pop(key, None)
                if writes.look_again_at is not None:
                    self._queue.add_after(key, max(writes.look_again_at, now + RETRY_S))

    async def _decide(self, observed: Observed, now: float) -> tuple[Observed, Writes]:
        """The writes, and the observation they were decided on: the object as it is when its turn comes."""
        if not self.composite.computes:
            return observed, self.composite.decide(observed, now)
        async with self._turns:
            latest = self._with_taken(self.objects.observed(observed.key) or observed, now)
            return latest, await asyncio.to_thread(self.composite.decide, latest, now)

    async def _carry_out(self, observed: Observed, writes: Writes, now: float, held: Failure | None) -> None:
        for write in writes.objects:
            try:
                await self._writer.write(observed, write)
            except OwnershipError:
                if not (isinstance(write, Create) and write.goes_on):
                    raise
                self._taken.setdefault(observed.key, {})[str(write.body["metadata"]["name"])] = now + TAKEN_S
                self._queue.add_after(observed.key, now + RETRY_S)
        wanted = observed.status if writes.status is None else writes.status
        status = (
            with_success(wanted, observed.status, observed.generation, now)
            if held is None
            else with_failure(wanted, held)
        )
        if await self._writer.write_status(observed, status):
            for event in writes.events:
                identity = JobId(observed.namespace, observed.name, observed.uid)
                self._event_recorder.record(identity, event, kind=self.composite.kind)

    def _with_taken(self, observed: Observed, now: float) -> Observed:
        """The observation with the names that were lately found in use."""
        known = {name: until for name, until in self._taken.pop(observed.key, {}).items() if until > now}
        if not known:
            return observed
        self._taken[observed.key] = known
        return replace(observed, taken=frozenset(known))

    async def _contain(self, observed: Observed, stage: Stage, error: Exception, now: float) -> None:
        """Note the failure in the object's status, and try again after a pause."""
        key = observed.key
        self._metrics.failures_contained.labels(f"{self.composite.kind}Failed").inc()
        if not isinstance(error, RefusedError | OwnershipError):
            log.error("%s %s: %s", self.composite.kind, key, error_text(error), exc_info=error)
        failure = failure_after(self._failures.get(key), observed, stage, error, now)
        self._failures[key] = failure
        self._queue.add_after(key, failure.retry_at)
        latest = self.objects.observed(key)
        if latest is None or latest.uid != observed.uid:
            return
        try:
            await self._writer.write_status(latest, with_failure(latest.status, failure))
        except UnreachableError:
            raise
        except Exception as refused:
            log.warning("%s %s: its failure is not written: %s", self.composite.kind, key, error_text(refused))
