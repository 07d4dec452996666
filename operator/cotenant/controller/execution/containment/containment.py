"""Contains failures of the operator to the job that they occur on. No other place catches them.

A job in quarantine is left alone for a pause, and all others go on. No decision is made about it, and its GPUs still
count as held. A new leader finds the quarantines again in the conditions of the jobs.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Final

from cotenant.controller.client.kube import FailedWebhookError, RefusedError
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.controller.informers.quarantine import (
    Quarantine,
    Stage,
    quarantine_after,
    quarantine_in,
)
from cotenant.controller.telemetry.logs import error_text
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import HOLDING

log = logging.getLogger(__name__)

_ABOUT_REFUSALS: Final = "; let the policy or webhook that this names allow the write, or make the object smaller"


@dataclass(frozen=True, slots=True)
class Restraint:
    """What a job's quarantine means for its next step."""

    left_alone: bool = False
    to_report: Quarantine | None = None
    """Quarantine whose condition still has to be written, once."""
    look_at: float | None = None
    """When the job has to be looked at because of its quarantine."""


@dataclass(slots=True, kw_only=True)
class Containment:
    cache: ObjectCache
    memories: JobMemories
    metrics: Metrics

    def __post_init__(self) -> None:
        for stage in Stage:
            self.metrics.failures_contained.labels(stage.value)
            self.metrics.quarantined.labels(stage.value).set_function(partial(self._count, stage))

    def restore(self, now: float) -> None:
        """Continue the quarantines that an earlier leader wrote into conditions."""
        for record in self.cache.jobs.values():
            memory = self.memories[record.id]
            if memory.quarantine is None:
                memory.quarantine = quarantine_in(record.status, generation=record.generation, now=now)

    def forget(self) -> None:
        """Forget all quarantines. Another replica leads, and its conditions count."""
        for memory in self.memories:
            memory.quarantine = memory.given_back = None

    def contain(self, job: JobId, stage: Stage, error: BaseException, now: float) -> None:
        """Put the job into quarantine, or extend its quarantine."""
        refused = isinstance(error, RefusedError | FailedWebhookError)
        stage, why = (Stage.REFUSAL, str(error)) if refused else (stage, error_text(error))
        record, memory = self.cache.job(job), self.memories[job]
        memory.quarantine = quarantine_after(
            memory.quarantine,
            stage,
            why,
            generation=record.generation if record else 0,
            holding=record is not None and record.phase in HOLDING,
            now=now,
        )
        self.metrics.failures_contained.labels(stage.value).inc()
        pause = memory.quarantine.retry_at - now
        advice = _ABOUT_REFUSALS if refused else ""
        # A refusal is the API server's: where in the operator the write was made explains nothing.
        trace = None if refused else error
        log.error("%s is left alone for %.0f s (%s): %s%s", job, pause, stage.value, why, advice, exc_info=trace)
        self.cache.mark_changed([job])

    def pause_until(self, job: JobId, now: float) -> float | None:
        """When a deleted job may be looked at again; None if it is not in quarantine."""
        quarantine = self.memories[job].quarantine
        return quarantine.retry_at if quarantine is not None and now < quarantine.retry_at else None

    def restraint(self, record: JobRecord, now: float) -> Restraint:
        """What a quarantine means for the job's next step. If its pause is over, the job is released for a try."""
        quarantine = self.memories[record.id].quarantine
        if quarantine is None:
            return Restraint()
        holds = quarantine.holds(record.generation, now)
        if holds:
            self._give_back(record, quarantine)
        elif not quarantine.lifted:
            self._let_out(record, quarantine, now)
        to_report = None
        if not quarantine.reported and (quarantine.lifted or holds):
            quarantine.reported, to_report = True, quarantine
        return Restraint(holds, to_report, quarantine.look_at(record.generation))

    def _let_out(self, record: JobRecord, quarantine: Quarantine, now: float) -> None:
        if quarantine.tried_at is None:
            quarantine.tried_at = now
            self.cache.mark_changed([record.id])  # the core sees it again
        elif (worked_at := quarantine.worked_at) is not None and now >= worked_at:
            quarantine.lifted, quarantine.reported = True, False
            log.info("%s: the quarantine is lifted", record.key)

    def _give_back(self, record: JobRecord, quarantine: Quarantine) -> None:
        """Stop counting a placement if none of its pods runs and the job failed again after a pause.

        A placement that another leader wrote a moment ago has not failed yet: its pods are still to be made.
        """
        memory, attempt = self.memories[record.id], record.status.attempts
        if not quarantine.again or quarantine.inherited or record.phase not in HOLDING or memory.given_back == attempt:
            return
        if not any(pod.held for pod in self.cache.pods_of(record.id).values()):
            memory.given_back = attempt
            log.warning(
                "%s: nothing of it runs; its room is given back, though its status does not show it", record.key
            )
            self.cache.mark_changed([record.id])

    def _count(self, stage: Stage) -> int:
        found = (memory.quarantine for memory in self.memories)
        return sum(one is not None and not one.lifted and one.stage is stage for one in found)
