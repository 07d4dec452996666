"""A job as it is once an action of a plan is carried out: what the next decision reads before the cluster shows it."""

from __future__ import annotations

from dataclasses import replace

from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Action, Admit, Evict


def overlay(job: Job, action: Action, at: float) -> Job:
    """The job with the action on top. `at`: when the action is carried out, in Unix seconds."""
    if isinstance(action, Evict):
        return replace(job, evicting=job.placement is not None)
    if isinstance(action, Admit):
        until = action.backfilled_until
        return replace(job, placement=action.placement, admitted_at=at, backfilled_until=until, evicting=False)
    return replace(job, placement=action.placement, resizing_from=job.resizing_from or job.placement)
