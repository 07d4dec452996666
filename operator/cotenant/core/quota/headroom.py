"""What quotas, user limits, lending and guarantees still leave free, in workers, with the rule that binds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from cotenant.core.model.measure import OF_QUEUE, OF_USER, Amounts, BindingLimit, Measure
from cotenant.core.quota.scopes import Scope, amount_in, covers, scope_text
from cotenant.core.quota.tree import Bucket, QuotaLine
from cotenant.core.quota.usage import Charge, Usage
from cotenant.core.quota.user_lines import UserLine

UNLIMITED = 1 << 60
GUARANTEE_OF: Final = "guarantee of "
"""Begins the scope of a guarantee that limits."""


@dataclass(slots=True)
class Headroom:
    """Workers of one cost that still fit under the rules: in all, and per zone where a quota line names one."""

    workers: int = UNLIMITED
    zone_workers: dict[str, int] = field(default_factory=dict)
    binding: BindingLimit | None = None
    zone_binding: dict[str, BindingLimit] = field(default_factory=dict)

    def tighten(self, workers: int, limit: BindingLimit, zone: str | None = None) -> None:
        """No more workers than so many, in all or in this zone, because of the limit."""
        workers = max(0, workers)
        if zone is not None:
            if workers < self.zone_workers.get(zone, UNLIMITED):
                self.zone_workers[zone] = workers
                self.zone_binding[zone] = limit
        elif workers < self.workers:
            self.workers, self.binding = workers, limit


@contextmanager
def raised_limit(usage: Usage, limit: BindingLimit, amount: int) -> Iterator[bool]:
    """Raise this limit by so much inside the block. Yields False if it is no limit that can be set."""
    _count_under(usage, limit, -amount)
    try:
        yield limit.counter is not None
    finally:
        _count_under(usage, limit, amount)


def used_under(usage: Usage, limit: BindingLimit) -> int:
    """What is used of it now."""
    lines, users = _counters(usage, limit)
    if isinstance(limit.counter, int):
        return lines[limit.counter]
    return users.get(limit.counter, 0) if limit.counter else 0


def _count_under(usage: Usage, limit: BindingLimit, amount: int) -> None:
    lines, users = _counters(usage, limit)
    if isinstance(limit.counter, int):
        lines[limit.counter] += amount
    elif limit.counter is not None:
        users[limit.counter] = users.get(limit.counter, 0) + amount


def _counters(usage: Usage, limit: BindingLimit) -> tuple[list[int], dict[tuple[int, str], int]]:
    """Use by quota line, and by line and user."""
    dimension = limit.measure.dimension
    return usage.of_lines[dimension], usage.of_users[dimension]


def headroom_of(
    usage: Usage,
    queue: int,
    user: str,
    gpu_class: str,
    cost: Amounts,
    *,
    idle: Mapping[Bucket, int] | None = None,
) -> Headroom:
    """Workers of this cost each, on GPUs of one class. `idle`: free milli-GPU per bucket; needed if some queue lends
    less than its guarantee."""
    headroom, of_user = Headroom(), usage.tree.user_lines(queue, user)
    for ancestor in usage.tree.paths[queue]:
        for line in usage.tree.quotas_of[ancestor]:
            if line.quota.gpu_class in (None, gpu_class):
                _limit_by_quota(usage, headroom, line, cost)
        for user_line in of_user:
            if user_line.queue == ancestor and user_line.limit.gpu_class in (None, gpu_class):
                _limit_by_user(usage, headroom, user_line, user, cost)
    if idle is not None:
        _limit_by_lending(usage, headroom, queue, gpu_class, milli=cost.milli, idle=idle)
    return headroom


def _limit_by_quota(usage: Usage, headroom: Headroom, line: QuotaLine, cost: Amounts) -> None:
    for measure, limit, held, amount in zip(OF_QUEUE, line.quota.limits, usage.of_lines, cost, strict=True):
        if limit is not None:
            used = held[line.index]
            binding = BindingLimit(measure, line.text, limit, used, line.index)
            headroom.tighten((limit - used) // max(1, amount), binding, line.quota.zone)


def _limit_by_user(usage: Usage, headroom: Headroom, line: UserLine, user: str, cost: Amounts) -> None:
    key, zone = (line.index, user), line.limit.zone
    where = "" if line.scope == (None, None) else f", {scope_text(line.scope)}"
    scope = f"user {user or '(none)'} in queue {usage.tree.queues[line.queue].name}{where}"
    for measure, limit, held, amount in zip(OF_USER, line.limit.limits, usage.of_users, cost, strict=True):
        if limit is not None:
            used = held.get(key, 0)
            headroom.tighten((limit - used) // max(1, amount), BindingLimit(measure, scope, limit, used, key), zone)


def within_lending_limits(usage: Usage, charge: Charge, idle: Mapping[Bucket, int]) -> bool:
    """True if others still find what they do not lend, with the charge taken from `idle` (milli-GPU a bucket)."""
    for scope, lent in _lent(usage, charge.queue, idle):
        wanted = sum(amounts.milli for bucket, amounts in charge.amounts if covers(scope, bucket))
        if wanted and lent < wanted:
            return False
    return True


def _limit_by_lending(
    usage: Usage, headroom: Headroom, queue: int, gpu_class: str, *, milli: int, idle: Mapping[Bucket, int]
) -> None:
    for scope, lent in _lent(usage, queue, idle):
        if scope[0] in (None, gpu_class):
            limit = BindingLimit(Measure.GPU, f"what other queues lend, {scope_text(scope)}", lent, 0)
            headroom.tighten(lent // max(1, milli), limit, scope[1])


def _lent(usage: Usage, queue: int, idle: Mapping[Bucket, int]) -> Iterator[tuple[Scope, int]]:
    """(scope of which other queues withhold something, milli-GPU that are idle there and not withheld)."""
    path = usage.tree.paths[queue]
    scopes = {line.scope for line in usage.tree.quotas if line.quota.lendable is not None}
    for scope in sorted(scopes, key=str):
        if withheld := sum(_withheld(usage, root, path, scope) for root in usage.tree.roots):
            yield scope, amount_in(idle, scope) - withheld


def limit_to_guarantees(headroom: Headroom, usage: Usage, queue: int, buckets: Sequence[Bucket], *, milli: int) -> None:
    """Tighten by what guarantees still take in these buckets, in workers of `milli` each. A job that may not be evicted
    runs only inside a guarantee of every queue on its path."""
    for ancestor in usage.tree.paths[queue]:
        lines = [line for line in usage.tree.quotas_of[ancestor] if line.quota.guaranteed]
        for line in (line for line in lines if any(map(line.matches, buckets))):
            used, scope = usage.quota_milli[line.index], f"{GUARANTEE_OF}{line.text}"
            limit = BindingLimit(Measure.GPU, scope, line.guaranteed, used)
            headroom.tighten((line.guaranteed - used) // max(1, milli), limit, line.quota.zone)
        covered = {bucket[1] for bucket in buckets if any(line.matches(bucket) for line in lines)}
        for zone in sorted({zone for _, zone in buckets} - covered):
            scope = f"{GUARANTEE_OF}queue {usage.tree.queues[ancestor].name}, class any, zone {zone or 'any'}"
            headroom.tighten(0, BindingLimit(Measure.GPU, scope, 0, 0), zone)


def _withheld(usage: Usage, queue: int, path: tuple[int, ...], scope: Scope) -> int:
    """Milli-GPU inside the scope that this subtree does not lend; queues on `path` withhold nothing."""
    below = sum(_withheld(usage, child, path, scope) for child in usage.tree.children[queue])
    if queue in path:
        return below
    equal = narrower = 0
    for line in usage.tree.quotas_of[queue]:
        if line.quota.lendable is None:
            continue
        withheld = max(0, line.guaranteed - line.quota.lendable - usage.quota_milli[line.index])
        if line.scope == scope:
            equal = max(equal, withheld)
        elif covers(scope, line.scope):
            narrower += withheld
    return max(equal, narrower, below)
