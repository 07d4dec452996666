"""What a queue could get now: guaranteed and borrowable GPUs by class, the largest share of a GPU, the largest gang.

Each offer is found by asking for it. The largest number of workers, or the largest share, for which the core's own
search finds a place now without an eviction is offered. A smaller gang or share never needs more room, so both are
found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Request
from cotenant.core.cycle.gallop import first_true
from cotenant.core.cycle.search import find
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import WHOLE, GpuRequest, Job, TenantQueue
from cotenant.core.model.plan import Refusal
from cotenant.core.placement import BestFit
from cotenant.query.situation import Situation

SHARE_STEP: Final = 10
"""Milli-GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassOffer:
    gpu_class: str
    guaranteed: int
    """Whole GPUs that jobs could hold now and nobody may take back: a gang that may not be evicted."""
    borrowable: int
    """Further whole GPUs that are idle now and may be taken back later."""
    largest_gang: int
    """Whole GPUs of a gang with one GPU per worker."""
    on_one_node: int
    """Whole GPUs of one worker."""
    share_milli: int
    """The largest part of one GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    queue: str
    namespace: str
    classes: tuple[ClassOffer, ...]
    refusal: str = ""
    """Why nothing is offered; empty if something is."""


def offers(situation: Situation, namespace: str) -> tuple[Offer, ...]:
    """Offers of each queue that serves the namespace, sorted by name."""
    tree = situation.accounting.tree
    serving = [queue for queue in tree.queues if namespace in queue.namespaces]
    return tuple(_offer(situation, queue, namespace) for queue in serving)


def _offer(situation: Situation, queue: TenantQueue, namespace: str) -> Offer:
    accounting = situation.accounting
    classes = sorted({gpu.gpu_class for node in situation.snapshot.nodes for gpu in node.gpus})
    asker = _Asker(
        Occupancy(accounting.ledger.copy(), accounting.usage.copy(), BestFit()),
        RequestResolver(accounting.inventory, accounting.tree),
        _probe(situation, queue, namespace),
    )
    found = tuple(one for one in (_of_class(asker, situation, name) for name in classes) if one is not None)
    refusal = asker.resolve(GpuRequest(), 1)
    return Offer(
        queue=queue.name,
        namespace=namespace,
        classes=found,
        refusal=refusal.message if isinstance(refusal, Refusal) and not found else "",
    )


@dataclass(frozen=True, slots=True)
class _Asker:
    occupancy: Occupancy
    resolver: RequestResolver
    probe: Job

    def resolve(self, gpu: GpuRequest, workers: int, *, preemptible: bool = True) -> Request | Refusal:
        job = replace(self.probe, gpu=gpu, workers_min=workers, workers_max=workers, preemptible=preemptible)
        return self.resolver.resolve(job)

    def takes(self, gpu: GpuRequest, workers: int, *, preemptible: bool = True) -> bool:
        request = self.resolve(gpu, workers, preemptible=preemptible)
        return not isinstance(request, Refusal) and find(self.occupancy, request, workers) is not None


def _of_class(asker: _Asker, situation: Situation, gpu_class: str) -> ClassOffer | None:
    """Offer of one class; None if the queue may never have a GPU of this class."""
    of_nodes = [sum(gpu.gpu_class == gpu_class for gpu in node.gpus) for node in situation.snapshot.nodes]
    one = GpuRequest(count=1, classes=(gpu_class,))
    if isinstance(asker.resolve(one, 1), Refusal):
        return None

    def whole(count: int) -> GpuRequest:
        return GpuRequest(count=count, classes=(gpu_class,))

    def share(steps: int) -> GpuRequest:
        return GpuRequest(memory_milli=steps * SHARE_STEP, classes=(gpu_class,))

    gang = _most(sum(of_nodes), lambda workers: asker.takes(one, workers))
    kept = _most(gang, lambda workers: asker.takes(one, workers, preemptible=False))
    part = _most(WHOLE // SHARE_STEP - 1, lambda steps: asker.takes(share(steps), 1))
    return ClassOffer(
        gpu_class=gpu_class,
        guaranteed=kept,
        borrowable=gang - kept,
        largest_gang=gang,
        on_one_node=_most(max(of_nodes, default=0), lambda count: asker.takes(whole(count), 1)),
        share_milli=WHOLE if gang else part * SHARE_STEP,
    )


def _most(limit: int, takes: Callable[[int], bool]) -> int:
    """The largest accepted number up to the limit; 0 if even one is refused."""
    if limit < 1 or not takes(1):
        return 0
    return limit if takes(limit) else first_true(1, limit, lambda number: not takes(number)) - 1


def _probe(situation: Situation, queue: TenantQueue, namespace: str) -> Job:
    """A job that only asks for GPUs, with a priority that the queue allows."""
    tree = situation.accounting.tree
    priority = 0
    if queue.name not in tree.broken:
        priority = tree.priority_bounds(tree.index[queue.name], of_class=False).nearest(0)
    return Job(
        key=f"{namespace}/?",
        uid="?",
        namespace=namespace,
        queue=queue.name,
        priority=priority,
        workers_min=1,
        workers_max=1,
        gpu=GpuRequest(),
        submitted_at=situation.snapshot.now,
    )
