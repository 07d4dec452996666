"""The annotation `cotenant.dev/stop`: the job ends for good, with the reason in the annotation. Pure."""

from __future__ import annotations

from typing import Final

from cotenant import names
from cotenant.api.scalars.status_text import plain_sentence
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.observation import EventToRecord, Observation, ReconcileResult
from cotenant.controller.lifecycle.termination import Finish
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent

REASON: Final = "Stopped"


def requested(o: Observation) -> str | None:
    """Reason for which a person wants the job to end; None if nobody asked, or the document cannot be read."""
    said = o.record.job.metadata.annotations.get(names.ANNOTATION_STOP) if o.record.job else None
    return plain_sentence(said) if said else None


def ending(o: Observation, settings: Settings) -> Finish | None:
    message = requested(o)
    return Finish(event=LifecycleEvent.STOPPED, reason=REASON, message=message) if message else None


def without_placement(o: Observation, message: str) -> ReconcileResult:
    """End a job that holds nothing. It never runs again."""
    changed = status_transitions.finished(
        o.status, LifecycleEvent.STOPPED, reason=REASON, message=message, milli=0, over_at=o.now, now=o.now
    )
    event = EventToRecord(reason=REASON, message=message)
    return ReconcileResult(status=changed, delete_pods=o.stoppable, event=event)
