"""Budgets of all queues: charged from the meters of jobs every few seconds, and written into the statuses of Queues.

An account records until when it is complete, and a new leader continues from there. The status of each job gives what
it has held since, to the second. So a SIGKILL or a time without a leader loses nothing and charges nothing twice.

If a job's document was deleted meanwhile, its end is unknown. The job is then charged up to the first look of the new
leader, at the highest price: a budget never shows less than was spent.

A Queue that is deleted and made anew goes on with its account until the end of the period, so that nobody gets a new
budget by that. A leader that has not seen the earlier Queue takes what the jobs show of the time before this one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.queue_status import BudgetUsage
from cotenant.api.resources.queues import Budget, Queue
from cotenant.controller.cluster.budgets.account import Account
from cotenant.controller.cluster.budgets.budget_usage import budget_usage
from cotenant.controller.cluster.budgets.held_by_queue import HeldBelow, HeldByQueue
from cotenant.core.quota.budget import NOTHING_SPENT, BudgetStanding
from cotenant.decision_log.showback.meters import Meter
from cotenant.decision_log.showback.periods import end_of
from cotenant.decision_log.showback.prices import NO_PRICES, PriceList

NO_QUEUES: Final[Mapping[str, str | None]] = MappingProxyType({})


@dataclass(slots=True)
class Budgets:
    prices: PriceList = NO_PRICES
    revision: int = 0
    """Grows whenever what a queue has spent changes."""
    _accounts: dict[str, Account] = field(default_factory=dict)
    _queues: dict[str, Queue] = field(default_factory=dict)
    """Queues as of the last charge."""
    _deleted: dict[str, tuple[str | None, Budget, Account]] = field(default_factory=dict)
    """Name of a deleted Queue → its parent, its last budget, and its account until the end of the period."""
    _read: dict[str, Meter] = field(default_factory=dict)
    """Job uid → meter, as it was read last."""
    _read_at: int = 0

    def charge(
        self,
        queues: Mapping[str, Queue],
        meters: Collection[Meter],
        now: float,
        *,
        deleted: Mapping[str, str | None] = NO_QUEUES,
    ) -> None:
        """Charge what jobs held since the last call. If the clock goes back, nothing is charged meanwhile.

        `deleted` maps a Queue that is gone, and in whose name jobs still hold GPUs, to its parent.
        """
        at = max(int(now), self._read_at)
        self._set_aside(queues)
        gone_queues = {name: parent for name, (parent, _, _) in self._deleted.items()}
        below = _queues_of({**gone_queues, **deleted, **{name: queue.spec.parent for name, queue in queues.items()}})
        held = HeldByQueue(meters, self._read, self._read_at)
        present = {meter.uid: meter.queue for meter in meters}
        left = [one for one in self._read.values() if one.held_milli and present.get(one.uid) != one.queue]
        for name, queue in queues.items():
            if (budget := queue.spec.budget) is None:
                self._accounts.pop(name, None)
                continue
            before, of_it = self._accounts.get(name), _below(held, below[name], left, present)
            after = self._counted(budget, before or self._taken_up(queue, budget, of_it, at), of_it, at)
            if after != before:
                self._accounts[name] = after
                self.revision += 1
        for name, (parent, budget, account) in list(self._deleted.items()):
            counted = self._counted(budget, account, _below(held, below[name], left, present), at)
            if counted.period_start != account.period_start:
                del self._deleted[name]
            else:
                self._deleted[name] = parent, budget, counted
        self._read, self._read_at = {meter.uid: meter for meter in meters}, at

    def forget(self) -> None:
        """Forget all accounts. Another replica leads and writes them; they are read from the statuses again."""
        self._accounts.clear()
        self._queues.clear()
        self._deleted.clear()
        self._read.clear()
        self._read_at = 0

    def standing(self, name: str, queue: Queue) -> BudgetStanding:
        """The queue's budget as of the last charge."""
        account, budget = self._accounts.get(name), queue.spec.budget
        if budget is None or account is None:
            return NOTHING_SPENT
        return account.standing(budget, self.prices.currency)

    def usage(self, queue: Queue, now: float) -> BudgetUsage | None:
        """The budget's usage for the status of the queue."""
        budget, account = queue.spec.budget, self._accounts.get(queue.metadata.name or "")
        if budget is None or account is None:
            return queue.status.budget if budget is not None else None
        return budget_usage(budget, account, self.prices, int(now))

    def _set_aside(self, queues: Mapping[str, Queue]) -> None:
        """Set accounts aside whose Queue was deleted since the last charge, perhaps with another one of its name."""
        for name, queue in self._queues.items():
            successor = queues.get(name)
            if successor is None or successor.metadata.uid != queue.metadata.uid:
                account, budget = self._accounts.pop(name, None), queue.spec.budget
                if account is not None and budget is not None:
                    self._deleted[name] = queue.spec.parent, budget, account
        self._queues = dict(queues)

    def _taken_up(self, queue: Queue, budget: Budget, below: HeldBelow, now: int) -> Account:
        opened = Account.opened(budget, now)
        *_, earlier = self._deleted.pop(queue.metadata.name or "", (None, None, None))
        if earlier is not None and earlier.period_start == opened.period_start:
            return earlier
        written = Account.written(queue.status.budget, now) if queue.status.budget else None
        if written is not None:
            return written
        created = unix_seconds(queue.metadata.creation_timestamp)
        if created is None or self._read_at:
            return opened
        # GPUs that jobs held in this name before the Queue was created were granted by an earlier Queue of the same
        # name.
        before = self._counted(
            budget, replace(opened, counted_until=opened.period_start), below, min(int(created), now)
        )
        return replace(before, counted_until=now)

    def _counted(self, budget: Budget, account: Account, below: HeldBelow, now: int) -> Account:
        """The account brought forward to `now`, across ends of periods and changes of prices."""
        if now < account.counted_until:
            return account
        missing = 0
        if not self._read_at:  # held when the account was written, by jobs of which nothing is known any more
            missing = max(0, account.held_milli - below.milli_at(account.counted_until))
        first = True
        for until in self._edges(budget, account, now):
            amounts = below.between(account.counted_until, until, first=first)
            seconds = until - account.counted_until
            counted = account.charged(amounts, self.prices, until)
            unknown = missing * seconds
            account = replace(
                counted,
                spent=counted.spent + unknown,
                money=counted.money + unknown * self.prices.highest(account.counted_until),
            )
            first = False
            if until >= end_of(budget.period, account.period_start):
                account = account.renewed(budget)
        return replace(account, held_milli=below.milli())

    def _edges(self, budget: Budget, account: Account, now: int) -> Iterator[int]:
        """Moments that divide the time into steps. Within a step there is one period, and one price for each class."""
        since, start = account.counted_until, account.period_start
        while since < now:
            end = min(now, end_of(budget.period, start))
            for _, until in self.prices.parts(since, end):
                if until > since:
                    yield until
            since, start = end, end


def _below(
    held: HeldByQueue, queues: Collection[str], left: Collection[Meter], present: Mapping[str, str]
) -> HeldBelow:
    """What counts to a budget of these queues. `left` are jobs that held GPUs at the last reading and are not in the
    same queue any more.
    """
    gone = [one for one in left if one.queue in queues and present.get(one.uid) not in queues]
    return HeldBelow(held, queues, gone)


def _queues_of(parents: Mapping[str, str | None]) -> dict[str, set[str]]:
    """Queue → itself and all queues below it. It also ends if parents form a circle, which people can write."""
    below: dict[str, set[str]] = {name: set() for name in parents}
    for name in parents:
        above: str | None = name
        seen: set[str] = set()
        while above is not None and above in parents and above not in seen:
            seen.add(above)
            below[above].add(name)
            above = parents[above]
    return below
