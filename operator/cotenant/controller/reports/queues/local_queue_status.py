"""What a namespace sees of a queue that serves it: amounts only, no names of others. Pure.

*Free* is what jobs of the queue could get without an eviction: idle GPUs, as far as the limits of the queue and of all
queues above it, and what others lend, allow. It is computed class by class. How free GPUs lie on nodes is not
considered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cotenant.api.resources.queue_status import LocalQueueStatus, LocalQuota
from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import WHOLE, JobKey
from cotenant.core.queueing.fair_share import borrowed, in_all
from cotenant.core.quota.headroom import headroom_of
from cotenant.core.quota.tree import Bucket, QueueTree, QuotaLine
from cotenant.core.quota.usage import Charge, Usage
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class LocalAccounts:
    """Holdings of all queues at one moment, with those of each namespace in them."""

    tree: QueueTree
    usage: Usage
    idle: Mapping[Bucket, int]
    """(class, zone) → milli-GPU that nobody holds."""
    held: Mapping[tuple[str, str], int]
    """(namespace, queue) → milli-GPU that jobs of the namespace hold."""
    running: Mapping[tuple[str, str], int]
    """The same → jobs."""
    pending: Mapping[tuple[str, str], int]
    whole: Mapping[str, Amounts]
    """Class → what its largest GPU counts in quotas."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> LocalAccounts:
        counted = snapshot.accounting or Accounting.of(snapshot.nodes, snapshot.queues, snapshot.jobs)
        held: Counter[tuple[str, str]] = Counter()
        running: Counter[tuple[str, str]] = Counter()
        for key, job in counted.running.items():
            place = _namespace(key), job.queue
            running[place] += 1
            held[place] += counted.allocations[key].charge.milli
        pending = Counter((_namespace(job.key), job.queue) for job in counted.pending)
        whole: dict[str, Amounts] = {}
        for kind in counted.inventory.kinds:
            cost = Amounts.of_share(kind.memory_mib, WHOLE, kind.memory_mib)
            whole[kind.gpu_class] = Amounts.largest((cost, whole.get(kind.gpu_class, cost)))
        return cls(
            tree=counted.tree,
            usage=counted.usage,
            idle=counted.ledger.idle(),
            held=held,
            running=running,
            pending=pending,
            whole=whole,
        )


def local_statuses(snapshot: Snapshot, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], LocalQueueStatus]:
    """Statuses by (namespace, queue). Queues that are not in the tree have none."""
    accounts = LocalAccounts.of(snapshot)
    of_queue: dict[str, LocalQueueStatus] = {}
    found = {}
    for place in places:
        queue = place[1]
        if queue not in accounts.tree.index:
            continue
        if queue not in of_queue:
            of_queue[queue] = _of_queue(accounts, accounts.tree.index[queue])
        here = {
            "used_here": accounts.held.get(place, 0),
            "running": accounts.running.get(place, 0),
            "pending": accounts.pending.get(place, 0),
        }
        found[place] = of_queue[queue].model_copy(update=here)
    return found


def _of_queue(accounts: LocalAccounts, queue: int) -> LocalQueueStatus:
    """Part of the status that all namespaces see. Amounts are milli already, and must not be converted again."""
    over = borrowed(accounts.usage, queue)
    lines = accounts.tree.quotas_of[queue]
    of_all = [line.quota.guaranteed for line in lines if line.quota.gpu_class is None and line.quota.zone is None]
    amounts = {
        "guaranteed": max([*of_all, sum(line.quota.guaranteed for line in lines) - sum(of_all)], default=0),
        "used": accounts.usage.held_milli(queue),
        "borrowed": in_all(over),
        "free": free_milli(accounts, queue, lambda _bucket: True),
        "quotas": tuple(_quota(accounts, queue, line) for line in lines),
    }
    return LocalQueueStatus().model_copy(update=amounts)


def _quota(accounts: LocalAccounts, queue: int, line: QuotaLine) -> LocalQuota:
    amounts = {
        "guaranteed": line.quota.guaranteed,
        "limit": line.quota.limit,
        "used": accounts.usage.quota_milli[line.index],
        "free": free_milli(accounts, queue, line.matches),
    }
    return LocalQuota(gpu_class=line.quota.gpu_class, zone=line.quota.zone).model_copy(update=amounts)


def free_milli(accounts: LocalAccounts, queue: int, counts: Callable[[Bucket], bool]) -> int:
    """Free milli-GPU, by buckets: what is idle and what quotas allow the queue, one bucket after the other.

    What one bucket gives reduces what the limits leave for the next.
    """
    tree, usage, idle = accounts.tree, accounts.usage.copy(), dict(accounts.idle)
    if tree.queues[queue].name in tree.broken:
        return 0
    total = 0
    for bucket in sorted(filter(counts, accounts.idle)):
        lines = tree.path_quotas(queue, bucket)
        if lines is None:
            continue
        gpu_class, zone = bucket
        whole = accounts.whole[gpu_class]
        lent = idle if tree.limits_lending else None
        allowed = headroom_of(usage, queue, _NOBODY, gpu_class, Amounts(milli=1), idle=lent)
        limited = [
            (limit - held[line.index]) * WHOLE // max(1, of_gpu)
            for line in lines
            for limit, held, of_gpu in zip(line.quota.limits, usage.of_lines, whole, strict=True)
            if limit is not None
        ]
        milli = min(idle[bucket], allowed.workers, allowed.zone_workers.get(zone, idle[bucket]), *limited)
        if milli > 0:
            charged = Amounts(*(milli * of_gpu // WHOLE for of_gpu in whole))
            usage.add(Charge(queue, _NOBODY, ((bucket, charged),)))
            idle[bucket] -= milli
            total += milli
    return total


_NOBODY = ""
"""A user who holds nothing yet. What users have used is shown to nobody else."""


def _namespace(key: JobKey) -> str:
    return key.partition("/")[0]
