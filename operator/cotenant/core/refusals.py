"""Why a job can never start as written: found before anything is tried, exactly, once per kind of request.

`resolve` turns a job into a `Request` or says no. Every no names what was asked, which rule or fact stands against it,
and what would change it. What only has to wait is said in `waiting`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cotenant.core.cycle import Cycle
from cotenant.core.fairness import entitled
from cotenant.core.ledger import Ledger
from cotenant.core.model import Job, Queue
from cotenant.core.placement import BestFit
from cotenant.core.placement.gang import most
from cotenant.core.placement.room import Room
from cotenant.core.placement.shapes import worker_shape
from cotenant.core.plan import Reason, Refusal
from cotenant.core.requests import Option, Request, key_of, options_of
from cotenant.core.usage import UNLIMITED, Bound, Usage
from cotenant.core.words import asked, counted, gpus, mebibytes, one_of, per_worker


def resolve(cycle: Cycle, job: Job) -> Request | Refusal:
    """The request behind a job, or the reason why it can never start; judged once for equal jobs."""
    key = key_of(job)
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
    request = Request(job, cycle.tree.number[job.queue], options, ranked=bool(job.gpu.classes))
    never = _exceeds_limit(cycle, request) or _exceeds_guarantee(cycle, request) or _exceeds_cluster(cycle, request)
    return never or request


def _queue(cycle: Cycle, job: Job) -> Refusal | None:
    tree = cycle.tree
    if job.queue in tree.broken:
        return Refusal(
            reason=Reason.QUEUE_NOT_FOUND, message=f"Queue {job.queue} cannot be used: {tree.broken[job.queue]}."
        )
    if job.queue in tree.number:
        return None
    serving = [queue.name for queue in tree.queues if job.namespace in queue.namespaces]
    hint = f"namespace {job.namespace} is served by {one_of(serving)}" if serving else _nobody(job.namespace)
    return Refusal(
        reason=Reason.QUEUE_NOT_FOUND,
        message=f"There is no queue {job.queue or '(none named)'}; {hint}.",
        evidence=(("queue", job.queue),),
    )


def _nobody(namespace: str) -> str:
    return f"no queue serves namespace {namespace}, ask an administrator to add it to one"


def _namespace(cycle: Cycle, job: Job) -> Refusal | None:
    tree = cycle.tree
    if job.namespace in tree.queues[tree.number[job.queue]].namespaces:
        return None
    serving = [queue.name for queue in tree.queues if job.namespace in queue.namespaces]
    hint = f"it is served by {one_of(serving)}" if serving else _nobody(job.namespace)
    return Refusal(
        reason=Reason.NAMESPACE_NOT_SERVED,
        message=f"Queue {job.queue} does not serve namespace {job.namespace}; {hint}.",
        evidence=(("queue", job.queue), ("namespace", job.namespace)),
    )


def _hardware(cycle: Cycle, job: Job) -> Refusal | None:
    inventory = cycle.inventory
    present = sorted({kind.gpu_class for kind in inventory.kinds})
    if not present:
        return Refusal(reason=Reason.NODES_NOT_READY, message="No node with GPUs is known yet.")
    if job.gpu.classes and not set(job.gpu.classes) & set(present):
        return Refusal(
            reason=Reason.CLASS_NOT_FOUND,
            message=f"No GPU of class {one_of(job.gpu.classes)} is in this cluster; there is {', '.join(present)}.",
            evidence=(("asked", one_of(job.gpu.classes)), ("available", ", ".join(present))),
        )
    zones = [zone for zone in inventory.zones if zone]
    if job.gpu.zones and not set(job.gpu.zones) & set(zones):
        return Refusal(
            reason=Reason.ZONE_NOT_FOUND,
            message=f"No node is in zone {one_of(job.gpu.zones)}; there is {', '.join(zones) or 'no zone at all'}.",
            evidence=(("asked", one_of(job.gpu.zones)), ("available", ", ".join(zones))),
        )
    return _too_large(cycle, job)


def _too_large(cycle: Cycle, job: Job) -> Refusal | None:
    shape = worker_shape(job)
    if any(shape.allows(kind) for kind in cycle.inventory.kinds):
        return None
    largest = max(kind for kind in cycle.inventory.kinds if not job.gpu.classes or kind.gpu_class in job.gpu.classes)
    return Refusal(
        reason=Reason.EXCEEDS_CLUSTER,
        message=(
            f"One worker needs {per_worker(job.gpu)}, more than one GPU has: "
            f"class {largest.gpu_class} has {mebibytes(largest.memory_mib)}."
        ),
        evidence=(("metric", "GPU memory"), ("limit", largest.memory_mib), ("asked", shape.memory_mib)),
    )


def _budget(cycle: Cycle, job: Job) -> Refusal | None:
    for step in cycle.tree.paths[cycle.tree.number[job.queue]]:
        queue: Queue = cycle.tree.queues[step]
        if queue.budget_left is not None and queue.budget_left <= 0:
            return Refusal(
                reason=Reason.BUDGET_SPENT,
                message=f"The GPU-hour budget of queue {queue.name} is spent; it starts again with the next period.",
                evidence=(("metric", "GPU-hours"), ("scope", f"queue {queue.name}"), ("available", 0)),
            )
    return None


_CHECKS: tuple[Callable[[Cycle, Job], Refusal | None], ...] = (_queue, _namespace, _hardware, _budget)


def _no_quota(cycle: Cycle, job: Job) -> Refusal:
    tree = cycle.tree
    queue = tree.number[job.queue]
    without = next(
        (tree.queues[step].name for step in tree.paths[queue] if not tree.lines_of[step] and step == queue), None
    )
    wanted = f"class {one_of(job.gpu.classes)}" if job.gpu.classes else "any class"
    zones = f" in zone {one_of(job.gpu.zones)}" if job.gpu.zones else ""
    why = f"queue {without} has no quota line at all" if without else f"no quota line of queue {job.queue} covers it"
    granted = sorted(
        {line.quota.gpu_class or "any class" for step in tree.paths[queue] for line in tree.lines_of[step]}
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
    tightest: tuple[int, Option, Bound] | None = None
    for option in request.options:
        room = unused.headroom(request.queue, request.job.user, option.gpu_class, milli=option.milli, mib=option.mib)
        zones = sorted({zone for _, zone in option.buckets})
        by_zone = sum(room.zones.get(zone, UNLIMITED) for zone in zones)
        workers = min(room.total, by_zone)
        if workers >= request.workers:
            return None
        bound = room.bound if room.total <= by_zone else room.zone_bounds[zones[0]]
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
        if not entitled(unused, request, step):
            name = cycle.tree.queues[step].name
            need = request.workers * min(option.milli for option in request.options)
            return Refusal(
                reason=Reason.EXCEEDS_LIMIT,
                message=(
                    f"Needs {asked(request.job)}, together {gpus(need)} GPU, and may not be evicted; "
                    f"such jobs run only inside a guarantee, and queue {name} is guaranteed less."
                ),
                evidence=(("metric", "GPU"), ("scope", f"guarantee of queue {name}"), ("asked", need)),
            )
    return None


def exceeded(reason: Reason, request: Request, option: Option, bound: Bound) -> Refusal:
    """A quota says no: metric, scope, limit, used, asked, available."""
    memory = bound.metric == "GPU memory"
    need = request.workers * (option.mib if memory else option.milli)
    say: Callable[[int], str] = mebibytes if memory else lambda milli: f"{gpus(milli)} GPU"
    if reason is Reason.EXCEEDS_LIMIT:
        rule = f"{bound.scope} allows at most {say(bound.limit)} at any time"
    else:
        rule = f"{bound.scope}: limit {say(bound.limit)}, used {say(bound.used)}, available {say(bound.available)}"
    return Refusal(
        reason=reason,
        message=f"Needs {asked(request.job)}, together {say(need)}; {rule}.",
        evidence=(
            ("metric", bound.metric),
            ("scope", bound.scope),
            ("limit", bound.limit),
            ("used", bound.used),
            ("asked", need),
            ("available", bound.available),
        ),
    )


def _exceeds_cluster(cycle: Cycle, request: Request) -> Refusal | None:
    """Exact: on empty nodes, capacities of equal workers simply add up."""
    fits = _on_empty(cycle.empty, request)
    if fits >= request.workers:
        return None
    job = request.job
    everything = cycle.inventory
    if not everything.ready.all():
        everything = everything.patched(replace(node, ready=True) for node in everything.nodes)
    room = Room(Ledger(everything), BestFit())
    with_all = _on_empty(room, replace(request, options=options_of(job, everything, cycle.tree)))
    if with_all >= request.workers:
        down = [node.name for node in cycle.inventory.nodes if not node.ready]
        return Refusal(
            reason=Reason.NODES_NOT_READY,
            message=(
                f"Needs {asked(job)}; the nodes that are ready hold {fits} of {counted(request.workers, 'worker')}. "
                f"Not ready: {', '.join(down[:5])}{' …' if len(down) > 5 else ''}."
            ),
            evidence=(("asked", request.workers), ("available", fits), ("nodes_not_ready", len(down))),
        )
    where = ""
    if job.topology is not None and job.topology.mode == "Required":
        where = f" inside one {job.topology.level}"
    elif job.excluded_nodes:
        where = f" outside the nodes that failed to start it ({', '.join(sorted(job.excluded_nodes))})"
    return Refusal(
        reason=Reason.EXCEEDS_CLUSTER,
        message=(
            f"Needs {asked(job)}; even an empty cluster holds only {with_all} of "
            f"{counted(request.workers, 'such worker')}{where}."
        ),
        evidence=(("metric", "workers"), ("asked", request.workers), ("limit", with_all)),
    )


def _on_empty(room: Room, request: Request) -> int:
    return max((most(room, option.ask) for option in request.options), default=0)
