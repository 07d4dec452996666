"""Requests of pending jobs, or the exact reason why a job can never start as written.

Every refusal names what was asked, the rule or fact that forbids it, and what would change it. Jobs that only have to
wait are explained by `pending_reason`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from operator import itemgetter

from cotenant.core.allocation.request import Option, Request, RequestKey, options_of, request_key
from cotenant.core.explain.queue_refusals import (
    budget_spent,
    no_queue,
    not_served,
    priority_not_allowed,
    queue_held,
)
from cotenant.core.explain.unsatisfiable import exceeds_cluster, no_such_gpus
from cotenant.core.gpus.inventory import Inventory
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.formatting import describe_request, format_amount, format_gpus, join_or
from cotenant.core.model.measure import BindingLimit, Measure
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.model.plan import Reason, Refusal
from cotenant.core.placement import BestFit
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.queueing.fair_share import within_guarantee
from cotenant.core.quota.headroom import UNLIMITED, headroom_of, used_under
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage


class RequestResolver:
    """Resolves jobs once per kind of request, and remembers them: that halves a cycle after 1 % of the nodes changed.

    Equal jobs share one `Request`, or one refusal.

    What follows from quotas, classes and zones alone is taken from the cycle before if these are the same. Whether the
    request fits into the cluster at all is checked in every cycle.
    """

    __slots__ = ("_before", "_empty", "_empty_before", "_inventory", "_known", "_of_job", "_of_kind", "_tree")

    def __init__(self, inventory: Inventory, tree: QueueTree, before: RequestResolver | None = None) -> None:
        self._inventory = inventory
        self._tree = tree
        self._known: dict[RequestKey, Request | Refusal] = {}
        self._of_job: dict[JobKey, tuple[Job, Request | Refusal]] = {}
        """Job key → the last answer: a job is asked about several times in a cycle."""
        self._empty: FitCache | None = None
        self._empty_before = None if before is None else before._empty
        self._of_kind: dict[RequestKey, Request | Refusal] = {}
        """Answers that follow from quotas, classes and zones alone, for the kinds asked about in this cycle."""
        self._before: Mapping[RequestKey, Request | Refusal] = {}
        if before is not None and before._tree is tree and before._inventory.has_frame_of(inventory):
            self._before = before._of_kind

    def resolve(self, job: Job) -> Request | Refusal:
        """The request behind a job, or the reason why it can never start."""
        last = self._of_job.get(job.key)
        if last is not None and last[0] is job:
            return last[1]
        key = request_key(job)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._resolve(job, key)
        self._of_job[job.key] = job, known
        return known

    def least_milli(self, job: Job) -> int | None:
        """Milli-GPU that the job asks for at least; None: it can never start."""
        request = self.resolve(job)
        return None if isinstance(request, Refusal) else request.least_milli

    def _resolve(self, job: Job, key: RequestKey) -> Request | Refusal:
        known = self._before.get(key)
        known = self._of_kind[key] = self._allowed(job) if known is None else known
        if isinstance(known, Refusal):
            return known
        request = replace(known, job=job)
        return exceeds_cluster(request, self._empty_nodes(), self._tree) or request

    def _allowed(self, job: Job) -> Request | Refusal:
        tree, inventory = self._tree, self._inventory
        refusal = (
            no_queue(job, tree)
            or not_served(job, tree)
            or queue_held(job, tree)
            or priority_not_allowed(job, tree)
            or no_such_gpus(job, inventory)
            or budget_spent(job, tree)
        )
        if refusal is not None:
            return refusal
        options = options_of(job, inventory, tree)
        if not options:
            return _no_quota(job, tree)
        request = Request.of(job, options, tree)
        return _exceeds_limit(request, tree) or _exceeds_guarantee(request, tree) or request

    def _empty_nodes(self) -> FitCache:
        """The nodes as they would be if no job held anything."""
        if self._empty is None:
            empty, before = Ledger(self._inventory), self._empty_before
            self._empty = (
                FitCache(empty, BestFit(), is_empty=True) if before is None else before.follow(empty, before.scorer)
            )
        return self._empty


def _no_quota(job: Job, tree: QueueTree) -> Refusal:
    queue = tree.index[job.queue]
    wanted = f"class {join_or(job.gpu.classes)}" if job.gpu.classes else "any class"
    zones = f" in zone {join_or(job.gpu.zones)}" if job.gpu.zones else ""
    covered = tree.quotas_of[queue]
    why = f"no quota line of queue {job.queue} covers it" if covered else f"queue {job.queue} has no quota line at all"
    path = tree.paths[queue]
    granted = sorted({line.quota.gpu_class or "any class" for ancestor in path for line in tree.quotas_of[ancestor]})
    covers = f"; its lines cover {', '.join(granted)}" if granted else ""
    return Refusal(
        reason=Reason.NO_QUOTA,
        message=f"There is no quota for GPUs of {wanted}{zones}: {why}{covers}.",
        evidence=(("scope", f"queue {job.queue}"), ("asked", wanted)),
    )


def _exceeds_limit(request: Request, tree: QueueTree) -> Refusal | None:
    """A limit does not change by waiting: a gang above the limit of an empty queue never starts."""
    unused, found = Usage(tree), list[tuple[int, Option, BindingLimit]]()
    for option in request.options:
        allowed = headroom_of(unused, request.queue, request.job.user, option.gpu_class, option.cost)
        zones = sorted({zone for _, zone in option.buckets})
        by_zone = sum(allowed.zone_workers.get(zone, UNLIMITED) for zone in zones)
        workers = min(allowed.workers, by_zone)
        if workers >= request.workers:
            return None
        limit = allowed.binding if allowed.workers <= by_zone else allowed.zone_binding[zones[0]]
        found += [] if limit is None else [(workers, option, limit)]
    _, option, limit = max(found, key=itemgetter(0))
    return exceeded(Reason.EXCEEDS_LIMIT, request, option, limit)


def _exceeds_guarantee(request: Request, tree: QueueTree) -> Refusal | None:
    """A job that cannot be evicted never borrows, so it must fit into what is guaranteed, all the way up."""
    if request.job.preemptible:
        return None
    unused = Usage(tree)
    for ancestor in tree.paths[request.queue]:
        if not within_guarantee(unused, request, ancestor):
            name = tree.queues[ancestor].name
            need = request.least_milli
            most = _most_guaranteed(request, tree, ancestor)
            guaranteed = f"only {format_gpus(most)} GPU" if most else "nothing"
            return Refusal(
                reason=Reason.EXCEEDS_LIMIT,
                message=(
                    f"Needs {describe_request(request.job)}, together {format_gpus(need)} GPU, and is not preemptible; "
                    f"such jobs run only inside a guarantee, and queue {name} is guaranteed {guaranteed}. Ask for "
                    "less, or for a larger guarantee."
                ),
                evidence=(("metric", Measure.GPU.value), ("scope", f"guarantee of queue {name}"), ("asked", need)),
            )
    return None


def _most_guaranteed(request: Request, tree: QueueTree, queue: int) -> int:
    """Milli-GPU guaranteed to the queue where the request could be placed: the tightest line there, of the best
    place."""
    buckets = {bucket for option in request.options for bucket in option.buckets}
    lines = [line for line in tree.quotas_of[queue] if line.quota.guaranteed]
    return max(min((line.guaranteed for line in lines if line.matches(one)), default=0) for one in buckets)


def as_used_now(refusal: Refusal, usage: Usage) -> Refusal:
    """The refusal of a limit, with its present use added: requests are judged against an empty cluster."""
    limit = refusal.binding
    if refusal.reason is not Reason.EXCEEDS_LIMIT or limit is None or not (used := used_under(usage, limit)):
        return refusal
    evidence = dict(refusal.evidence) | {"used": used, "available": max(0, limit.limit - used)}
    message = f"{refusal.message.removesuffix('.')}; {format_amount(limit.measure, used)} is used."
    return replace(refusal, message=message, evidence=tuple(evidence.items()))


def exceeded(reason: Reason, request: Request, option: Option, limit: BindingLimit) -> Refusal:
    """The refusal of a quota, with metric, scope, limit, used, asked and available."""
    asked = request.workers * option.cost[limit.measure.dimension]
    amount = partial(format_amount, limit.measure)
    if reason is Reason.EXCEEDS_LIMIT:
        rule = f"{limit.scope} allows at most {amount(limit.limit)} at any time"
    else:
        numbers = f"limit {amount(limit.limit)}, used {amount(limit.used)}, available {amount(limit.available)}"
        rule = f"{limit.scope}: {numbers}"
    return Refusal(
        reason=reason,
        message=f"Needs {describe_request(request.job)}, together {amount(asked)}; {rule}.",
        evidence=(
            ("metric", limit.measure.value),
            ("scope", limit.scope),
            ("limit", limit.limit),
            ("used", limit.used),
            ("asked", asked),
            ("available", limit.available),
        ),
        binding=limit,
    )
