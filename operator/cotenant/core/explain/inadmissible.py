"""Why a job can never start as written: found before anything is tried, exactly, once per kind of request.

`resolve` turns a job into a `Request` or says no. Every no names what was asked, which rule or fact stands against it,
and what would change it. What only has to wait is said in `waiting`.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.core.allocation.request import Option, Request, options_of, request_key
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.explain import unsatisfiable
from cotenant.core.model.formatting import describe_request, format_gpus, format_mib, join_or
from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.quota.usage import UNLIMITED, BindingLimit, Usage


def resolve(cycle: Cycle, job: Job) -> Request | Refusal:
    """The request behind a job, or the reason why it can never start; judged once for equal jobs."""
    key = request_key(job)
    known = cycle.requests.get(key)
    if known is None:
        known = cycle.requests[key] = _resolve(cycle, job)
    return known


def _resolve(cycle: Cycle, job: Job) -> Request | Refusal:
    for check in _CHECKS:
        refusal = check(cycle, job)
        if refusal is not None:
            return refusal
    options = options_of(job, cycle.inventory, cycle.tree)
    if not options:
        return _no_quota(cycle, job)
    request = Request(job, cycle.tree.index[job.queue], options, ranked=bool(job.gpu.classes))
    never = (
        _exceeds_limit(cycle, request)
        or _exceeds_guarantee(cycle, request)
        or unsatisfiable.exceeds_cluster(cycle, request)
    )
    return never or request


def _queue(cycle: Cycle, job: Job) -> Refusal | None:
    tree = cycle.tree
    if job.queue in tree.broken:
        return Refusal(
            reason=Reason.QUEUE_NOT_FOUND, message=f"Queue {job.queue} cannot be used: {tree.broken[job.queue]}."
        )
    if job.queue in tree.index:
        return None
    serving = [queue.name for queue in tree.queues if job.namespace in queue.namespaces]
    hint = f"namespace {job.namespace} is served by {join_or(serving)}" if serving else _nobody(job.namespace)
    return Refusal(
        reason=Reason.QUEUE_NOT_FOUND,
        message=f"There is no queue {job.queue or '(none named)'}; {hint}.",
        evidence=(("queue", job.queue),),
    )


def _nobody(namespace: str) -> str:
    return f"no queue serves namespace {namespace}, ask an administrator to add it to one"


def _namespace(cycle: Cycle, job: Job) -> Refusal | None:
    tree = cycle.tree
    if job.namespace in tree.queues[tree.index[job.queue]].namespaces:
        return None
    serving = [queue.name for queue in tree.queues if job.namespace in queue.namespaces]
    hint = f"it is served by {join_or(serving)}" if serving else _nobody(job.namespace)
    return Refusal(
        reason=Reason.NAMESPACE_NOT_SERVED,
        message=f"Queue {job.queue} does not serve namespace {job.namespace}; {hint}.",
        evidence=(("queue", job.queue), ("namespace", job.namespace)),
    )


def _budget(cycle: Cycle, job: Job) -> Refusal | None:
    for step in cycle.tree.paths[cycle.tree.index[job.queue]]:
        queue: TenantQueue = cycle.tree.queues[step]
        if queue.budget_left is not None and queue.budget_left <= 0:
            return Refusal(
                reason=Reason.BUDGET_SPENT,
                message=f"The GPU-hour budget of queue {queue.name} is spent; it starts again with the next period.",
                evidence=(("metric", "GPU-hours"), ("scope", f"queue {queue.name}"), ("available", 0)),
            )
    return None


_CHECKS: tuple[Callable[[Cycle, Job], Refusal | None], ...] = (_queue, _namespace, unsatisfiable.no_such_gpus, _budget)


def _no_quota(cycle: Cycle, job: Job) -> Refusal:
    tree = cycle.tree
    queue = tree.index[job.queue]
    without = next(
        (tree.queues[step].name for step in tree.paths[queue] if not tree.quotas_of[step] and step == queue), None
    )
    wanted = f"class {join_or(job.gpu.classes)}" if job.gpu.classes else "any class"
    zones = f" in zone {join_or(job.gpu.zones)}" if job.gpu.zones else ""
    why = f"queue {without} has no quota line at all" if without else f"no quota line of queue {job.queue} covers it"
    granted = sorted(
        {line.quota.gpu_class or "any class" for step in tree.paths[queue] for line in tree.quotas_of[step]}
    )
    covers = f"; its lines cover {', '.join(granted)}" if granted else ""
    return Refusal(
        reason=Reason.NO_QUOTA,
        message=f"Nothing is granted for GPUs of {wanted}{zones}: {why}{covers}.",
        evidence=(("scope", f"queue {job.queue}"), ("asked", wanted)),
    )


def _exceeds_limit(cycle: Cycle, request: Request) -> Refusal | None:
    """No line moves by waiting: a gang above an empty queue's limit never starts."""
    unused = Usage(cycle.tree)
    tightest: tuple[int, Option, BindingLimit] | None = None
    for option in request.options:
        room = unused.headroom(request.queue, request.job.user, option.gpu_class, milli=option.milli, mib=option.mib)
        zones = sorted({zone for _, zone in option.buckets})
        by_zone = sum(room.zone_workers.get(zone, UNLIMITED) for zone in zones)
        workers = min(room.workers, by_zone)
        if workers >= request.workers:
            return None
        bound = room.binding if room.workers <= by_zone else room.zone_binding[zones[0]]
        if bound is not None and (tightest is None or workers > tightest[0]):
            tightest = workers, option, bound
    if tightest is None:
        return None
    return exceeded(Reason.EXCEEDS_LIMIT, request, tightest[1], tightest[2])


def _exceeds_guarantee(cycle: Cycle, request: Request) -> Refusal | None:
    """A job that cannot be evicted never borrows, so it must fit into what is guaranteed, all the way up."""
    if request.job.preemptible:
        return None
    unused = Usage(cycle.tree)
    for step in cycle.tree.paths[request.queue]:
        if not within_guarantee(unused, request, step):
            name = cycle.tree.queues[step].name
            need = request.workers * min(option.milli for option in request.options)
            return Refusal(
                reason=Reason.EXCEEDS_LIMIT,
                message=(
                    f"Needs {describe_request(request.job)}, together {format_gpus(need)} GPU, and may not be evicted; "
                    f"such jobs run only inside a guarantee, and queue {name} is guaranteed less."
                ),
                evidence=(("metric", "GPU"), ("scope", f"guarantee of queue {name}"), ("asked", need)),
            )
    return None


def exceeded(reason: Reason, request: Request, option: Option, bound: BindingLimit) -> Refusal:
    """A quota says no: metric, scope, limit, used, asked, available."""
    memory = bound.metric == "GPU memory"
    need = request.workers * (option.mib if memory else option.milli)
    say: Callable[[int], str] = format_mib if memory else lambda milli: f"{format_gpus(milli)} GPU"
    if reason is Reason.EXCEEDS_LIMIT:
        rule = f"{bound.scope} allows at most {say(bound.limit)} at any time"
    else:
        rule = f"{bound.scope}: limit {say(bound.limit)}, used {say(bound.used)}, available {say(bound.available)}"
    return Refusal(
        reason=reason,
        message=f"Needs {describe_request(request.job)}, together {say(need)}; {rule}.",
        evidence=(
            ("metric", bound.metric),
            ("scope", bound.scope),
            ("limit", bound.limit),
            ("used", bound.used),
            ("asked", need),
            ("available", bound.available),
        ),
    )
