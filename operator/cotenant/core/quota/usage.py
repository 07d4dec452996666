"""Usage of each queue, quota line and user, as integers.

`QueueTree` holds what is fixed of the quotas, `Usage` what moves. Adding a charge and taking it off are exact inverses.
What is still free under every rule is in `headroom`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cotenant.core.model.measure import OF_QUEUE, Amounts
from cotenant.core.quota.tree import Bucket, QueueTree

UserOfLine: TypeAlias = tuple[int, str]
"""(line of users, user)."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Cost of one placement per bucket."""

    queue: int
    user: str
    amounts: tuple[tuple[Bucket, Amounts], ...]

    @property
    def milli(self) -> int:
        return sum(amounts.milli for _, amounts in self.amounts)


class Usage:
    __slots__ = ("class_milli", "of_lines", "of_users", "quota_milli", "tree")

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self.of_lines: tuple[list[int], ...] = tuple([0] * len(tree.quotas) for _ in OF_QUEUE)
        """For each dimension (`Amounts`): what is held under each quota line, by the whole subtree."""
        self.quota_milli = self.of_lines[0]
        """Of GPUs."""
        self.of_users: tuple[dict[UserOfLine, int], ...] = tuple({} for _ in OF_QUEUE)
        """For each dimension: what each user holds under a line of users, in the whole subtree."""
        self.class_milli: list[dict[str, int]] = [{} for _ in tree.queues]
        """Queue → class → milli-GPU held by the subtree."""

    def copy(self) -> Usage:
        twin = Usage.__new__(Usage)
        twin.tree = self.tree
        twin.of_lines = tuple(held.copy() for held in self.of_lines)
        twin.quota_milli = twin.of_lines[0]
        twin.of_users = tuple(held.copy() for held in self.of_users)
        twin.class_milli = [held.copy() for held in self.class_milli]
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
        for bucket, amounts in charge.amounts:
            for ancestor in path:
                held = self.class_milli[ancestor]
                held[bucket[0]] = held.get(bucket[0], 0) + sign * amounts.milli
                for line in self.tree.quotas_of[ancestor]:
                    if line.matches(bucket):
                        for of_line, amount in zip(self.of_lines, amounts, strict=True):
                            of_line[line.index] += sign * amount
            for user_line in of_user:
                if user_line.matches(bucket):
                    key = user_line.index, charge.user
                    for of_line_and_user, amount in zip(self.of_users, amounts, strict=True):
                        of_line_and_user[key] = of_line_and_user.get(key, 0) + sign * amount

    def within_limits(self, charge: Charge) -> bool:
        """The charge, on top of what is held, breaks no limit of any quota line or user."""
        if charge.queue < 0:
            return False
        added: dict[int, list[Amounts]] = {}
        for bucket, amounts in charge.amounts:
            lines = self.tree.path_quotas(charge.queue, bucket)
            if lines is None:
                return False
            for line in lines:
                added.setdefault(line.index, []).append(amounts)
        for number, more in added.items():
            if not _allow(self.tree.quotas[number].quota.limits, [held[number] for held in self.of_lines], more):
                return False
        for user_line in self.tree.user_lines(charge.queue, charge.user):
            key = user_line.index, charge.user
            more = [amounts for bucket, amounts in charge.amounts if user_line.matches(bucket)]
            if more and not _allow(user_line.limit.limits, [held.get(key, 0) for held in self.of_users], more):
                return False
        return True

    def held_milli(self, queue: int) -> int:
        return sum(self.class_milli[queue].values())


def _allow(limits: Iterable[int | None], held: Iterable[int], more: Sequence[Amounts]) -> bool:
    """True if what is held and these amounts together exceed none of the limits. All have one value a dimension."""
    each = zip(limits, held, zip(*more, strict=True), strict=True)
    return all(limit is None or used + sum(amounts) <= limit for limit, used, amounts in each)
