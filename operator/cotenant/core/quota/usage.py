"""What each queue, line and user holds, as integers, and what is still free under every rule.

The moving half of the quota books: `QueueTree` is the fixed half. `charge` and its negative are exact inverses. The
answer to "how many workers" is a `Headroom`, which also names the rule that binds, for the tenant's message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.core.quota.tree import Bucket, Line, QueueTree

UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Charge:
    """What one placement costs, per bucket: milli-GPU and MiB of GPU memory."""

    queue: int
    user: str
    amounts: tuple[tuple[Bucket, int, int], ...]

    @property
    def milli(self) -> int:
        return sum(milli for _, milli, _ in self.amounts)


@dataclass(frozen=True, slots=True)
class Bound:
    """The rule that binds, with the numbers of the refusal."""

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
    """How many more workers of one cost fit under the rules: in all, and per zone where a line names one."""

    total: int = UNLIMITED
    zones: dict[str, int] = field(default_factory=dict)
    bound: Bound | None = None
    zone_bounds: dict[str, Bound] = field(default_factory=dict)

    def tighten(self, workers: int, bound: Bound, zone: str | None = None) -> None:
        workers = max(0, workers)
        if zone is not None:
            if workers < self.zones.get(zone, UNLIMITED):
                self.zones[zone] = workers
                self.zone_bounds[zone] = bound
        elif workers < self.total:
            self.total, self.bound = workers, bound


class Usage:
    __slots__ = ("classes", "lines", "memory", "tree", "users")

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self.lines: list[int] = [0] * len(tree.lines)
        """Milli-GPU held under each line, by the whole subtree."""
        self.memory: list[int] = [0] * len(tree.lines)
        self.classes: list[dict[str, int]] = [{} for _ in tree.queues]
        """Queue → class → milli-GPU held by the subtree."""
        self.users: dict[tuple[int, str], int] = {}

    def copy(self) -> Usage:
        twin = Usage.__new__(Usage)
        twin.tree = self.tree
        twin.lines, twin.memory = self.lines.copy(), self.memory.copy()
        twin.classes = [held.copy() for held in self.classes]
        twin.users = self.users.copy()
        return twin

    def under(self, tree: QueueTree) -> Usage:
        """The same holders under a tree of the same queues whose guarantees have changed."""
        twin = self.copy()
        twin.tree = tree
        return twin

    def charge(self, charge: Charge, sign: int = 1) -> None:
        if charge.queue < 0:
            return
        path = self.tree.paths[charge.queue]
        total = 0
        for bucket, milli, mib in charge.amounts:
            total += milli
            for step in path:
                held = self.classes[step]
                held[bucket[0]] = held.get(bucket[0], 0) + sign * milli
            for number in self.tree.covering(charge.queue, bucket):
                self.lines[number] += sign * milli
                self.memory[number] += sign * mib
        for step in path:
            if self.tree.queues[step].user_limit is not None:
                key = (step, charge.user)
                self.users[key] = self.users.get(key, 0) + sign * total

    def within_limits(self, charge: Charge) -> bool:
        """Whether the charge, on top of what is held, breaks no limit of any line or user."""
        if charge.queue < 0:
            return False
        added: dict[int, tuple[int, int]] = {}
        for bucket, milli, mib in charge.amounts:
            lines = self.tree.path_lines(charge.queue, bucket)
            if lines is None:
                return False
            for line in lines:
                before = added.get(line.number, (0, 0))
                added[line.number] = before[0] + milli, before[1] + mib
        for number, (milli, mib) in added.items():
            quota = self.tree.lines[number].quota
            if quota.limit is not None and self.lines[number] + milli > quota.limit:
                return False
            if quota.memory_limit_mib is not None and self.memory[number] + mib > quota.memory_limit_mib:
                return False
        for step in self.tree.paths[charge.queue]:
            limit = self.tree.queues[step].user_limit
            if limit is not None and self.users.get((step, charge.user), 0) + charge.milli > limit:
                return False
        return True

    def held(self, queue: int) -> int:
        return sum(self.classes[queue].values())

    def same(self, other: Usage) -> bool:
        return (
            self.lines == other.lines
            and self.memory == other.memory
            and [{key: held for key, held in one.items() if held} for one in self.classes]
            == [{key: held for key, held in one.items() if held} for one in other.classes]
            and {key: held for key, held in self.users.items() if held}
            == {key: held for key, held in other.users.items() if held}
        )

    def headroom(
        self, queue: int, user: str, gpu_class: str, *, milli: int, mib: int, idle: Mapping[Bucket, int] | None = None
    ) -> Headroom:
        """Workers of `milli` and `mib` each, on GPUs of one class. `idle` is needed where queues hold back."""
        room = Headroom()
        for step in self.tree.paths[queue]:
            for line in self.tree.lines_of[step]:
                if line.quota.gpu_class in (None, gpu_class):
                    self._line(room, line, milli, mib)
            limit = self.tree.queues[step].user_limit
            if limit is not None:
                used = self.users.get((step, user), 0)
                bound = Bound(
                    "GPU per user", f"user {user or '(none)'} in queue {self.tree.queues[step].name}", limit, used
                )
                room.tighten((limit - used) // max(1, milli), bound)
        if idle is not None:
            self._held_back(room, queue, gpu_class, milli, idle)
        return room

    def _line(self, room: Headroom, line: Line, milli: int, mib: int) -> None:
        quota, zone = line.quota, line.quota.zone
        if quota.limit is not None:
            used = self.lines[line.number]
            room.tighten((quota.limit - used) // max(1, milli), Bound("GPU", self.scope(line), quota.limit, used), zone)
        if quota.memory_limit_mib is not None:
            used, limit = self.memory[line.number], quota.memory_limit_mib
            room.tighten((limit - used) // max(1, mib), Bound("GPU memory", self.scope(line), limit, used), zone)

    def lends(self, charge: Charge, idle: Mapping[Bucket, int]) -> bool:
        """With the whole charge taken from what is idle, other queues still find what they do not lend."""
        path = self.tree.paths[charge.queue]
        for scope in {line.scope for line in self.tree.lines if line.quota.lendable is not None}:
            asked = sum(milli for bucket, milli, _ in charge.amounts if _inside(bucket, scope))
            kept = sum(self._kept(root, path, scope) for root in self.tree.roots) if asked else 0
            if kept and sum(milli for bucket, milli in idle.items() if _inside(bucket, scope)) - kept < asked:
                return False
        return True

    def _held_back(self, room: Headroom, queue: int, gpu_class: str, milli: int, idle: Mapping[Bucket, int]) -> None:
        path = self.tree.paths[queue]
        scopes = {line.scope for line in self.tree.lines if line.quota.lendable is not None}
        for scope in sorted(scopes, key=str):
            if scope[0] not in (None, gpu_class):
                continue
            kept = sum(self._kept(root, path, scope) for root in self.tree.roots)
            if not kept:
                continue
            free = sum(amount for bucket, amount in idle.items() if _inside(bucket, scope))
            where = _scope_words(scope)
            room.tighten(
                (free - kept) // max(1, milli),
                Bound("GPU", f"what other queues lend, {where}", free - kept, 0),
                scope[1],
            )

    def _kept(self, queue: int, path: tuple[int, ...], scope: tuple[str | None, str | None]) -> int:
        """Milli-GPU inside the scope that this subtree does not lend; the asking path keeps nothing from itself."""
        below = sum(self._kept(child, path, scope) for child in self.tree.children[queue])
        if queue in path:
            return below
        equal = narrower = 0
        for line in self.tree.lines_of[queue]:
            if line.quota.lendable is None:
                continue
            kept = max(0, line.guaranteed - line.quota.lendable - self.lines[line.number])
            if line.scope == scope:
                equal = max(equal, kept)
            elif all(mine is None or mine == theirs for mine, theirs in zip(scope, line.scope, strict=True)):
                narrower += kept
        return max(equal, narrower, below)

    def scope(self, line: Line) -> str:
        return f"queue {self.tree.queues[line.queue].name}, {_scope_words(line.scope)}"


def _inside(bucket: Bucket, scope: tuple[str | None, str | None]) -> bool:
    return scope[0] in (None, bucket[0]) and scope[1] in (None, bucket[1])


def _scope_words(scope: tuple[str | None, str | None]) -> str:
    gpu_class, zone = scope
    return f"class {gpu_class or 'any'}, zone {zone or 'any'}"
