"""Usage of each queue, quota line and user, as integers.

`QueueTree` holds what is fixed of the quotas, `Usage` what moves. Adding a charge and taking it off are exact inverses.
What is still free under every rule is in `headroom`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.core.quota.tree import Bucket, QueueTree


@dataclass(frozen=True, slots=True)
class Charge:
    """Cost of one placement per bucket: milli-GPU (see `share_cost`) and MiB of GPU memory."""

    queue: int
    user: str
    amounts: tuple[tuple[Bucket, int, int], ...]

    @property
    def milli(self) -> int:
        return sum(milli for _, milli, _ in self.amounts)


class Usage:
    __slots__ = ("class_milli", "quota_mib", "quota_milli", "tree", "user_mib", "user_milli")

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self.quota_milli: list[int] = [0] * len(tree.quotas)
        """Milli-GPU held under each quota line, by the whole subtree."""
        self.quota_mib: list[int] = [0] * len(tree.quotas)
        self.class_milli: list[dict[str, int]] = [{} for _ in tree.queues]
        """Queue → class → milli-GPU held by the subtree."""
        self.user_milli: dict[tuple[int, str], int] = {}
        """(line of users, user) → milli-GPU that the user holds under it, in the whole subtree."""
        self.user_mib: dict[tuple[int, str], int] = {}

    def copy(self) -> Usage:
        twin = Usage.__new__(Usage)
        twin.tree = self.tree
        twin.quota_milli, twin.quota_mib = self.quota_milli.copy(), self.quota_mib.copy()
        twin.class_milli = [held.copy() for held in self.class_milli]
        twin.user_milli, twin.user_mib = self.user_milli.copy(), self.user_mib.copy()
        return twin

    def with_tree(self, tree: QueueTree) -> Usage:
        """The same holders under a tree of the same queues whose guarantees have changed."""
        twin = self.copy()
        twin.tree = tree
        return twin

    def add(self, charge: Charge, sign: int = 1) -> None:
        if charge.queue < 0:
            return
        path, of_user = self.tree.paths[charge.queue], self.tree.user_lines(charge.queue, charge.user)
        for bucket, milli, mib in charge.amounts:
            for ancestor in path:
                held = self.class_milli[ancestor]
                held[bucket[0]] = held.get(bucket[0], 0) + sign * milli
            for number in self.tree.matching(charge.queue, bucket):
                self.quota_milli[number] += sign * milli
                self.quota_mib[number] += sign * mib
            for line in of_user:
                if line.matches(bucket):
                    key = line.index, charge.user
                    self.user_milli[key] = self.user_milli.get(key, 0) + sign * milli
                    self.user_mib[key] = self.user_mib.get(key, 0) + sign * mib

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
        return self._within_user_limits(charge)

    def _within_user_limits(self, charge: Charge) -> bool:
        for line in self.tree.user_lines(charge.queue, charge.user):
            matching = [(milli, mib) for bucket, milli, mib in charge.amounts if line.matches(bucket)]
            if not matching:
                continue
            limit, key = line.limit, (line.index, charge.user)
            milli = self.user_milli.get(key, 0) + sum(one for one, _ in matching)
            mib = self.user_mib.get(key, 0) + sum(one for _, one in matching)
            if limit.limit is not None and milli > limit.limit:
                return False
            if limit.memory_limit_mib is not None and mib > limit.memory_limit_mib:
                return False
        return True

    def held_milli(self, queue: int) -> int:
        return sum(self.class_milli[queue].values())
