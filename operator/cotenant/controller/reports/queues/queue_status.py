"""The status of a Queue, from the sums that decisions use: held, borrowed, lent, waiting. Pure."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cotenant.api.conversion import conditions
from cotenant.api.resources.queue_status import PastBorrowing, QueueStatus, QuotaUsage, pooled_use
from cotenant.api.resources.queues import Queue
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.fields import moment
from cotenant.controller.client.kube import Document
from cotenant.controller.cluster.budgets.budgets import Budgets
from cotenant.controller.reports.queues.user_usage import users_of
from cotenant.core.queueing.fair_share import DominantShares, borrowed, in_all
from cotenant.core.quota.tree import QueueTree, QuotaLine
from cotenant.core.quota.usage import Usage
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.snapshot.snapshot import Snapshot

log = logging.getLogger(__name__)

NOBODY_THERE = "the queue takes jobs, but there is no namespace that it serves: make one, or correct spec.namespaces"


@dataclass(frozen=True, slots=True)
class QueueAccounts:
    """Holdings of all queues, and the jobs that wait in them, at one moment."""

    tree: QueueTree
    usage: Usage
    shares: DominantShares
    pending: Mapping[str, int]
    running: Mapping[str, int]
    past: Mapping[str, PastBorrowing]

    @classmethod
    def of(cls, snapshot: Snapshot) -> QueueAccounts:
        standing = snapshot.accounting or Accounting.of(snapshot.nodes, snapshot.queues, snapshot.jobs)
        pending = Counter(job.queue for job in standing.pending)
        running = Counter(job.queue for job in standing.running.values())
        at = moment(snapshot.now)
        past = {
            one.queue: PastBorrowing(
                milli_gpu_seconds=int(one.milli_seconds), at=at, half_life_seconds=int(one.half_life_s)
            )
            for one in snapshot.usage_history
        }
        return cls(standing.tree, standing.usage, DominantShares(standing.tree, {}), pending, running, past)


def status_of(
    queue: Queue, account: QueueAccounts, served: Mapping[str, bool], budgets: Budgets, now: float
) -> QueueStatus:
    """`served`: namespace whose jobs may use the queue → whether it exists."""
    name = queue.metadata.name or ""
    number = account.tree.index[name]
    over = borrowed(account.usage, number)
    lines = tuple(_quota_usage(account, line, over) for line in account.tree.quotas_of[number])
    below = _descendants(account.tree, number)
    amounts: dict[str, object] = {
        "used": account.usage.held_milli(number),
        "borrowed": in_all(over),
        "lent": max((line.lent for line in lines), default=0),
    }
    status = QueueStatus(
        pending=sum(account.pending.get(one, 0) for one in below),
        running=sum(account.running.get(one, 0) for one in below),
        share=f"{account.shares.share(account.usage, number) / 10_000:.1f} %",
        namespaces=tuple(sorted(served)),
        budget=budgets.usage(queue, now),
        past_borrowing=account.past.get(name),
        conditions=_conditions(queue, account.tree.broken.get(name, ""), any(served.values()), now),
        observed_generation=queue.metadata.generation,
    )
    amounts |= {"quotas": lines, "users": users_of(account.usage, number)}
    return status.model_copy(update=amounts)  # amounts are milli already: not to be read again


def unreadable_conditions(why: str, before: Mapping[str, Any], now: float) -> Document:
    """Status of a Queue that cannot be read. `before` is its last status; a condition that was False keeps its time."""
    old: Document = next(iter(before.get("conditions") or ()), {})
    since = old.get("lastTransitionTime") if old.get("status") == "False" else None
    ready = Condition(
        type="Ready",
        status="False",
        reason="Unreadable",
        message=f"the queue grants nothing, because it cannot be read: {why}",
        last_transition_time=since or moment(now),
    )
    return {"conditions": [ready.to_document()]}


def worth_a_write(change: Mapping[str, object], written: Mapping[str, object]) -> bool:
    """True if the status has changed, apart from past borrowing.

    Past borrowing changes every second. Its stored value and what the queue has borrowed since give the current one.
    """
    return bool(change.keys() - {"pastBorrowing"} or (change and "pastBorrowing" not in written))


def _quota_usage(account: QueueAccounts, line: QuotaLine, over: Mapping[str | None, int]) -> QuotaUsage:
    """Usage of a quota line. Lent is the part of the idle guarantee that others hold. `over` is class → what the queue
    has borrowed.
    """
    used = account.usage.quota_milli[line.index]
    idle = max(0, line.guaranteed - used)
    amounts: dict[str, int | str] = {
        "guaranteed": line.quota.guaranteed,
        "effective": line.guaranteed,
        "used": used,
        "borrowed": max(0, used - line.guaranteed) if line.quota.guaranteed else _borrowed_within(line, used, over),
        "lent": max(0, idle - _free_milli(account, line)),
    }
    amounts |= pooled_use([held[line.index] for held in account.usage.of_lines], line.quota.limits)
    return QuotaUsage(gpu_class=line.quota.gpu_class, zone=line.quota.zone).model_copy(update=amounts)


def _borrowed_within(line: QuotaLine, used: int, over: Mapping[str | None, int]) -> int:
    """Amount borrowed of what is used under a line that guarantees nothing. Other lines may guarantee it."""
    return min(
        used, in_all(over) if line.quota.gpu_class is None else over.get(line.quota.gpu_class, over.get(None, 0))
    )


def _free_milli(account: QueueAccounts, line: QuotaLine) -> int:
    """Free milli-GPU that match the quota line. The usage of a class is not divided by zones."""
    classes = {name for (name, _) in account.tree.capacity if line.quota.gpu_class in (None, name)}
    capacity = sum(milli for bucket, milli in account.tree.capacity.items() if line.matches(bucket))
    held = sum(account.usage.class_milli[root].get(name, 0) for root in account.tree.roots for name in classes)
    return max(0, capacity - held)


def _descendants(tree: QueueTree, number: int) -> list[str]:
    found, todo = [], [number]
    while todo:
        one = todo.pop()
        found.append(tree.queues[one].name)
        todo += tree.children[one]
    return found


def _conditions(queue: Queue, broken: str, serves_some: bool, now: float) -> tuple[Condition, ...]:
    status, reason = ("False", "Broken") if broken else ("True", "Ready")
    wanted = queue.spec.namespaces or queue.spec.namespace_selector is not None
    message = broken or (NOBODY_THERE if wanted and not serves_some else "the queue takes jobs")
    known, generation = queue.status.conditions, queue.metadata.generation
    return (conditions.renewed(known, "Ready", status, reason, message, at=now, generation=generation),)
