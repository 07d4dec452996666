"""Changes of the world: what arrives, departs or differs, except by a decision of ours or by time alone.

Not a change: a job starts, leaves, is resized or saves its work as decided; a job turns idle or busy; a job asks for
less memory because less was measured to suffice (`Job.asked_memory_mib`); a budget is used. Until the next change, a
job that was evicted for another is not evicted again (`Snapshot.evicted`).
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.core.model.objects import Job, TenantQueue


def is_change_of_queue(queue: TenantQueue | None, before: TenantQueue | None) -> bool:
    """True if the queue is new, gone, or differs in more than what is left of a budget that is not spent."""
    if queue is None or before is None:
        return queue is not before
    if queue.budget_left and before.budget_left:
        before = replace(before, budget_left=queue.budget_left)
    if queue.money_left and before.money_left:
        before = replace(before, money_left=queue.money_left)
    return queue != before


def is_change_of_job(job: Job, before: Job | None) -> bool:
    """True if the job is new, was edited, avoids other nodes, or gave up its place without being asked to.

    `before`: the job with all decisions applied, whether they were observed or not.
    """
    if before is None or job.uid != before.uid:
        return True
    held, holds = before.placement is not None and not before.evicting, job.placement is not None and not job.evicting
    if held and not holds:
        return True
    sized = job.asked_memory_mib is not None and before.asked_memory_mib is not None
    return job != replace(
        before,
        gpu=replace(before.gpu, memory_mib=job.gpu.memory_mib) if sized else before.gpu,
        requeued_at=job.requeued_at,
        placement=job.placement,
        admitted_at=job.admitted_at,
        backfilled_until=job.backfilled_until,
        last_checkpoint_at=job.last_checkpoint_at,
        evicting=job.evicting,
        idle=job.idle,
        resizing_from=job.resizing_from,
    )
