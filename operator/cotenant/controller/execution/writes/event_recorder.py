"""Kubernetes Events about TrainingJobs, for tenants: recorded after the status, best effort, at a bounded rate.

An Event is a message, not a record. If there are too many, or the API server is busy, Events are dropped and the drops
are counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from datetime import UTC, datetime

from cotenant import names
from cotenant.contract.decoding.plain_text import plain_text
from cotenant.controller.client.event_document import event_document
from cotenant.controller.client.kube import EVENTS, Document, FencedError, Kube, UnreachableError
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.controller.telemetry.logs import error_text
from cotenant.controller.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

MESSAGE_CHARS_MAX = 1024
REASON_CHARS_MAX = 128
QUEUE_LENGTH_MAX = 1000


class EventRecorder:
    def __init__(self, kube: Kube, metrics: Metrics, *, identity: str, per_second: float) -> None:
        self._kube = kube
        self._metrics = metrics
        self._identity = identity
        self._pause = 1.0 / per_second if per_second else 0.0
        self._queue: asyncio.Queue[Document] = asyncio.Queue(QUEUE_LENGTH_MAX)
        self._disabled = not per_second

    def record(
        self,
        job: JobRecord | JobId,
        event: EventToRecord,
        *,
        kind: str = "TrainingJob",
        api_version: str = names.API_VERSION,
    ) -> None:
        """Queue the Event without waiting. `kind` is the kind of the object that `job` identifies."""
        if self._disabled:
            return
        try:
            self._queue.put_nowait(
                kubernetes_event(job, event, self._identity, datetime.now(UTC), kind=kind, api_version=api_version)
            )
        except asyncio.QueueFull:
            self._metrics.events_dropped.inc()

    async def run(self) -> None:
        while True:
            document = await self._queue.get()
            started = time.monotonic()
            try:
                await self._kube.create(EVENTS, document, document["metadata"]["namespace"])
            except FencedError:
                self._metrics.events_dropped.inc()  # the replica that leads now records its own
            except UnreachableError as error:
                self._metrics.events_dropped.inc()
                log.warning("an Event was not written: %s", error)
            except Exception as error:  # it is a message about one job, and no other's is lost by it
                self._metrics.events_dropped.inc()
                log.error("an Event cannot be written: %s", error_text(error))
            await asyncio.sleep(max(0.0, self._pause - (time.monotonic() - started)))


def kubernetes_event(
    job: JobRecord | JobId,
    event: EventToRecord,
    identity: str,
    now: datetime,
    *,
    kind: str = "TrainingJob",
    api_version: str = names.API_VERSION,
) -> Document:
    about = {"apiVersion": api_version, "kind": kind, "namespace": job.namespace, "name": job.name, "uid": job.uid}
    message = plain_text(event.message, MESSAGE_CHARS_MAX, lines=True)
    unique = _digest(job.uid, event) if event.once else ""
    return event_document(about, plain_text(event.reason, REASON_CHARS_MAX), message, now, instance=identity[:128],
                          warning=event.warning, unique=unique)  # fmt: skip


def _digest(uid: str, event: EventToRecord) -> str:
    """Name suffix that is equal for equal Events about one object, so that the API server refuses the second."""
    return hashlib.sha256(f"{uid}/{event.reason}/{event.message}".encode()).hexdigest()[:16]
