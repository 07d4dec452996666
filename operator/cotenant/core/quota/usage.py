"""Usage of each queue, quota line and user, as integers, and what is still free under every rule.

`QueueTree` is the fixed half of the quotas, `Usage` the moving half. Adding a charge and its negative are exact
inverses. `Headroom` counts workers, and names the rule that binds, for the tenant's message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from cotenant.core.quota.tree import Bucket, QueueTree, QuotaLine

UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Charge:
    """Cost of one placement per bucket: milli-GPU (see `share_cost`) and MiB of GPU memory."""

    queue: int
    user: str
    amounts: tuple[tuple[Bucket, int, int], ...]

    @property
    def milli(self) -> int:
        return sum(milli for _, milli, _ in self.amounts)


@dataclass(frozen=True, slots=True)
class BindingLimit:
    """A rule that binds, with the numbers that a refusal names."""

    metric: str
    """`GPU`, `GPU memory` or `GPU per user`; milli-GPU or MiB."""
    scope: str
    limit: int
    used: int

    @property
    def available(self) -> int:
        return max(0, self.limit - self.used)


@dataclass(slots=True)
class Headroom:
    """Workers of one cost that still fit under the rules: in all, and per zone where a quota line names one."""

    workers: int = UNLIMITED
    zone_workers: dict[str, int] = field(default_factory=dict)
    binding: BindingLimit | None = None
    zone_binding: dict[str, BindingLimit] = field(default_factory=dict)

    def tighten(self, workers: int, limit: BindingLimit, zone: str | None = None) -> None:
        workers = max(0, workers)
        if zone is not None:
            if workers < self.zone_workers.get(zone, UNLIMITED):
                self.zone_workers[zone] = workers
                self.zone_binding[zone] = limit
        elif workers < self.workers:
            self.workers, self.binding = workers, limit


class Usage:
    __slots__ = ("class_milli", "quota_mib", "quota_milli", "tree", "user_milli")

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self.quota_milli: list[int] = [0] * len(tree.quotas)
        """Milli-GPU held under each quota line, by the whole subtree."""
        self.quota_mib: list[int] = [0] * len(tree.quotas)
        self.class_milli: list[dict[str, int]] = [{} for _ in tree.queues]
        """Queue → class → milli-GPU held by the subtree."""
        self.user_milli: dict[tuple[int, str], int] = {}

    def copy(self) -> Usage:
        twin = Usage.__new__(Usage)
        twin.tree = self.tree
        twin.quota_milli, twin.quota_mib = self.quota_milli.copy(), self.quota_mib.copy()
        twin.class_milli = [held.copy() for held in self.class_milli]
        twin.user_milli = self.user_milli.copy()
        return twin

    def with_tree(self, tree: QueueTree) -> Usage:
        """The same holders under a tree of the same queues whose guarantees have changed."""
        twin = self.copy()
        twin.tree = tree
        return twin

    def add(self, charge: Charge, sign: int = 1) -> None:
        if charge.queue < 0:
            return
        path = self.tree.paths[charge.queue]
        total = 0
        for bucket, milli, mib in charge.amounts:
            total += milli
            for ancestor in path:
                held = self.class_milli[ancestor]
                held[bucket[0]] = held.get(bucket[0], 0) + sign * milli
            for number in self.tree.matching(charge.queue, bucket):
                self.quota_milli[number] += sign * milli
                self.quota_mib[number] += sign * mib
        for ancestor in path:
            if self.tree.queues[ancestor].user_limit is not None:
                key = (ancestor, charge.user)
                self.user_milli[key] = self.user_milli.get(key, 0) + sign * total

    def within_limits(self, charge: Charge) -> bool:
        """The charge, on top of what is held, breaks no limit of any quota line or user."""
        if charge.queue < 0:
            return False
        added: dict[int, tuple[int, int]] = {}
        for bucket, milli, mib in charge.amounts:
            lines = self.tree.path_quotas(charge.queue, bucket)
            if lines is None:
                return False
            for line in lines:
                before = added.get(line.index, (0, 0))
                added[line.index] = before[0] + milli, before[1] + mib
        for number, (milli, mib) in added.items():
            quota = self.tree.quotas[number].quota
            if quota.limit is not None and self.quota_milli[number] + milli > quota.limit:
                return False
            if quota.memory_limit_mib is not None and self.quota_mib[number] + mib > quota.memory_limit_mib:
                return False
        for ancestor in self.tree.paths[charge.queue]:
            limit = self.tree.queues[ancestor].user_limit
            if limit is not None and self.user_milli.get((ancestor, charge.user), 0) + charge.milli > limit:
                return False
        return True

    @contextmanager
    def with_more(self, queue: int, limit: BindingLimit, amount: int) -> Iterator[bool]:
        """As if this limit on the queue's path were larger by so much; false where it is no limit that could be set."""
        held = self.quota_mib if limit.metric == "GPU memory" else self.quota_milli
        lines = (line for ancestor in self.tree.paths[queue] for line in self.tree.quotas_of[ancestor])
        numbers = [line.index for line in lines if self.scope_text(line) == limit.scope]
        users = [key for key in self.user_milli if self._user_scope(*key) == limit.scope]
        for number in numbers:
            held[number] -= amount
        for key in users:
            self.user_milli[key] -= amount
        try:
            yield bool(numbers or users)
        finally:
            for number in numbers:
                held[number] += amount
            for key in users:
                self.user_milli[key] += amount

    def _user_scope(self, queue: int, user: str) -> str:
        return f"user {user or '(none)'} in queue {self.tree.queues[queue].name}"

    def held_milli(self, queue: int) -> int:
        return sum(self.class_milli[queue].values())

    def same(self, other: Usage) -> bool:
        return (
            self.quota_milli == other.quota_milli
            and self.quota_mib == other.quota_mib
            and [{key: held for key, held in one.items() if held} for one in self.class_milli]
            == [{key: held for key, held in one.items() if held} for one in other.class_milli]
            and {key: held for key, held in self.user_milli.items() if held}
            == {key: held for key, held in other.user_milli.items() if held}
        )

    def headroom(
        self, queue: int, user: str, gpu_class: str, *, milli: int, mib: int, idle: Mapping[Bucket, int] | None = None
    ) -> Headroom:
        """Workers of `milli` and `mib` each, on GPUs of one class. `idle`: free milli-GPU per bucket; needed where some
        queue lends less than its guarantee."""
        headroom = Headroom()
        for ancestor in self.tree.paths[queue]:
            for line in self.tree.quotas_of[ancestor]:
                if line.quota.gpu_class in (None, gpu_class):
                    self._limit_by_quota(headroom, line, milli, mib)
            limit = self.tree.queues[ancestor].user_limit
            if limit is not None:
                used = self.user_milli.get((ancestor, user), 0)
                scope = self._user_scope(ancestor, user)
                headroom.tighten((limit - used) // max(1, milli), BindingLimit("GPU per user", scope, limit, used))
        if idle is not None:
            self._limit_by_lending(headroom, queue, gpu_class, milli, idle)
        return headroom

    def _limit_by_quota(self, headroom: Headroom, line: QuotaLine, milli: int, mib: int) -> None:
        quota, zone = line.quota, line.quota.zone
        if quota.limit is not None:
            used = self.quota_milli[line.index]
            headroom.tighten(
                (quota.limit - used) // max(1, milli),
                BindingLimit("GPU", self.scope_text(line), quota.limit, used),
                zone,
            )
        if quota.memory_limit_mib is not None:
            used, limit = self.quota_mib[line.index], quota.memory_limit_mib
            headroom.tighten(
                (limit - used) // max(1, mib), BindingLimit("GPU memory", self.scope_text(line), limit, used), zone
            )

    def within_lending_limits(self, charge: Charge, idle: Mapping[Bucket, int]) -> bool:
        """With the whole charge taken from `idle` (milli-GPU per bucket), others still find what they do not lend."""
        path = self.tree.paths[charge.queue]
        for scope in {line.scope for line in self.tree.quotas if line.quota.lendable is not None}:
            wanted = sum(milli for bucket, milli, _ in charge.amounts if _in_scope(bucket, scope))
            withheld = sum(self._withheld(root, path, scope) for root in self.tree.roots) if wanted else 0
            if (
                withheld
                and sum(milli for bucket, milli in idle.items() if _in_scope(bucket, scope)) - withheld < wanted
            ):
                return False
        return True

    def _limit_by_lending(
        self, headroom: Headroom, queue: int, gpu_class: str, milli: int, idle: Mapping[Bucket, int]
    ) -> None:
        path = self.tree.paths[queue]
        scopes = {line.scope for line in self.tree.quotas if line.quota.lendable is not None}
        for scope in sorted(scopes, key=str):
            if scope[0] not in (None, gpu_class):
                continue
            withheld = sum(self._withheld(root, path, scope) for root in self.tree.roots)
            if not withheld:
                continue
            free = sum(amount for bucket, amount in idle.items() if _in_scope(bucket, scope))
            where = _scope_text(scope)
            headroom.tighten(
                (free - withheld) // max(1, milli),
                BindingLimit("GPU", f"what other queues lend, {where}", free - withheld, 0),
                scope[1],
            )

    def _withheld(self, queue: int, path: tuple[int, ...], scope: tuple[str | None, str | None]) -> int:
        """Milli-GPU inside the scope that this subtree does not lend; queues on `path` withhold nothing."""
        below = sum(self._withheld(child, path, scope) for child in self.tree.children[queue])
        if queue in path:
            return below
        equal = narrower = 0
        for line in self.tree.quotas_of[queue]:
            if line.quota.lendable is None:
                continue
            withheld = max(0, line.guaranteed - line.quota.lendable - self.quota_milli[line.index])
            if line.scope == scope:
                equal = max(equal, withheld)
            elif all(mine is None or mine == theirs for mine, theirs in zip(scope, line.scope, strict=True)):
                narrower += withheld
        return max(equal, narrower, below)

    def scope_text(self, line: QuotaLine) -> str:
        return f"queue {self.tree.queues[line.queue].name}, {_scope_text(line.scope)}"


def _in_scope(bucket: Bucket, scope: tuple[str | None, str | None]) -> bool:
    return scope[0] in (None, bucket[0]) and scope[1] in (None, bucket[1])


def _scope_text(scope: tuple[str | None, str | None]) -> str:
    gpu_class, zone = scope
    return f"class {gpu_class or 'any'}, zone {zone or 'any'}"
