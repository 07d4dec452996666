"""Refusals of a job by its queue, whatever it asks for: none of that name, not served, held, priority, spent budget.

None means no refusal. Refusals by quotas, for the amounts of a request, are in `inadmissible`.
"""

from __future__ import annotations

from cotenant.core.model.formatting import format_gpus, format_money, join_or
from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.quota.tree import QueueTree


def no_queue(job: Job, tree: QueueTree) -> Refusal | None:
    if job.queue in tree.broken:
        return Refusal(
            reason=Reason.QUEUE_NOT_FOUND, message=f"Queue {job.queue} cannot be used: {tree.broken[job.queue]}."
        )
    if job.queue in tree.index and not tree.queues[tree.index[job.queue]].deleted:
        return None
    what = f"There is no queue {job.queue} (spec.queue)" if job.queue else "The job names no queue (spec.queue)"
    return Refusal(
        reason=Reason.QUEUE_NOT_FOUND,
        message=f"{what}; {_instead(job, tree)}.",
        evidence=(("queue", job.queue),),
    )


def _instead(job: Job, tree: QueueTree) -> str:
    """Clause: what to write as the job's queue, or who can help."""
    namespace = job.namespace
    if serving := [queue.name for queue in tree.queues if namespace in queue.namespaces]:
        return f"write {join_or(serving)}, which serve{'s' if len(serving) == 1 else ''} namespace {namespace}"
    if any(namespace in queue.unlabelled for queue in tree.queues):
        return f"namespace {namespace} is not labelled cotenant.dev/tenant=true, ask an administrator to label it"
    return f"no queue serves namespace {namespace}, ask an administrator to add it to one"


def not_served(job: Job, tree: QueueTree) -> Refusal | None:
    if job.namespace in tree.queues[tree.index[job.queue]].namespaces:
        return None
    return Refusal(
        reason=Reason.NAMESPACE_NOT_SERVED,
        message=f"Queue {job.queue} (spec.queue) does not serve namespace {job.namespace}; {_instead(job, tree)}.",
        evidence=(("queue", job.queue), ("namespace", job.namespace)),
    )


def queue_held(job: Job, tree: QueueTree) -> Refusal | None:
    for ancestor in tree.paths[tree.index[job.queue]]:
        queue = tree.queues[ancestor]
        if queue.hold:
            return Refusal(
                reason=Reason.QUEUE_HELD,
                message=(
                    f"An administrator holds queue {queue.name}: {queue.hold}. Its running jobs continue. Its waiting"
                    " jobs start when it is released."
                ),
                evidence=(("queue", queue.name),),
            )
    return None


def priority_not_allowed(job: Job, tree: QueueTree) -> Refusal | None:
    bounds = tree.priority_bounds(tree.index[job.queue], of_class=bool(job.priority_class))
    if job.priority == bounds.nearest(job.priority):
        return None
    high = job.priority > bounds.most
    limit, queue = (bounds.most, bounds.most_of) if high else (bounds.least, bounds.least_of)
    word, end, field = ("above", "highest", "maxPriority") if high else ("below", "lowest", "minPriority")
    rule = f"the {end} that queue {queue} allows ({field})" if queue else f"the {end} unless a queue says otherwise"
    if job.priority_class:
        what = f"PriorityClass {job.priority_class} has priority {job.priority}"
        write = f"name a class of {limit} or {'less' if high else 'more'} in spec.priorityClassName"
    else:
        what, write = f"The job asks for priority {job.priority}", f"write spec.priority: {limit}"
    return Refusal(
        reason=Reason.PRIORITY_NOT_ALLOWED,
        message=(
            f"{what}, {word} {limit}, {rule}; {write}, or ask an administrator to change {field} of queue"
            f" {queue or job.queue}."
        ),
        evidence=(
            ("metric", "priority"),
            ("scope", f"queue {queue or job.queue}"),
            ("limit", limit),
            ("asked", job.priority),
        ),
    )


def budget_spent(job: Job, tree: QueueTree) -> Refusal | None:
    for ancestor in tree.paths[tree.index[job.queue]]:
        queue = tree.queues[ancestor]
        if queue.budget_left is not None and queue.budget_left <= 0:
            limit = None if queue.budget is None else format_gpus(queue.budget // 3600)
            return _spent(queue, limit, "GPU-hours", "gpuHours")
        if queue.money_left is not None and queue.money_left <= 0:
            limit = None if queue.money is None else format_money(queue.money)
            return _spent(queue, limit, queue.currency or "money", "money")
    return None


def _spent(queue: TenantQueue, limit: str | None, unit: str, field: str) -> Refusal:
    of = "" if limit is None else f" of {limit} {unit}"
    message = f"The budget{of} of queue {queue.name} is spent; it starts again with the next period."
    if queue.budget_until:
        message = (
            f"The budget{of} of queue {queue.name} is spent until {queue.budget_until}; the job starts with the next"
            f" period, or when an administrator raises spec.budget.{field}."
        )
    limited = (("limit", limit),) if limit is not None else ()
    evidence = (("metric", unit), ("scope", f"queue {queue.name}"), *limited, ("available", 0))
    return Refusal(reason=Reason.BUDGET_SPENT, message=message, evidence=evidence)
