"""The queue tree: parents and children, which quota lines cover what, and what is guaranteed today.

Every line that matches a request, on the whole path, must allow it. A line covers the buckets (GPU class, zone) that
it names; usage is counted per line, so a check is a few integer comparisons. Default nothing: a queue that has jobs
needs a line that matches; an inner queue without lines only groups.

Limits of users must allow the request as well; each is for a class and zone or for any. A limit that names a user
replaces the one for everybody of the same class and zone. Limits grant nothing.

Lending limits: a queue may lend less than its whole guarantee. What it does not lend stays free for it:
`wanted + Σ withheld by queues off the path ≤ idle`, with `withheld = max(0, guaranteed − lendable − used)`.
Example: 8 idle, team-b guarantees 6, lends 2, uses 1 → 3 are withheld, a borrower may take 5.

Lost nodes: if guarantees add up to more GPUs than exist, all are scaled down by the same factor (as in Koordinator's
elastic quota), so that no queue relies on GPUs that do not exist. Example: 8 + 8 guaranteed, 12 left → 6 + 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import WHOLE, Job, Quota, TenantQueue
from cotenant.core.quota.priority_bounds import CLASSES, NUMBERS, PriorityBounds
from cotenant.core.quota.scopes import amount_in, scope_text
from cotenant.core.quota.user_lines import UserLine, counting, lines_by_queue

Bucket = tuple[str, str]
"""(GPU class, zone)."""


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """One quota of one queue, with its guarantee as it is today."""

    index: int
    queue: int
    quota: Quota
    guaranteed: int
    """Scaled to what exists."""
    text: str
    """As messages name it: the queue, and for which GPUs."""

    def matches(self, bucket: Bucket) -> bool:
        return self.quota.gpu_class in (None, bucket[0]) and self.quota.zone in (None, bucket[1])

    @property
    def scope(self) -> tuple[str | None, str | None]:
        return self.quota.scope


@dataclass(frozen=True, slots=True, eq=False)
class QueueTree:
    """Built once per set of queues and inventory."""

    queues: tuple[TenantQueue, ...]
    """In order of name."""
    index: Mapping[str, int]
    parent: tuple[int, ...]
    """-1: a root."""
    children: tuple[tuple[int, ...], ...]
    roots: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]
    """Queue → itself, its parent, … its root."""
    broken: Mapping[str, str]
    """Queue that cannot be used → why: its parent is missing, or it is its own ancestor."""
    quotas: tuple[QuotaLine, ...]
    quotas_of: tuple[tuple[QuotaLine, ...], ...]
    user_lines_of: tuple[tuple[UserLine, ...], ...]
    capacity: Mapping[Bucket, int]
    """Milli-GPU that take work today."""
    limits_lending: bool
    priorities: tuple[tuple[PriorityBounds, PriorityBounds], ...]
    """Queue → bounds of numbers, and of PriorityClasses."""
    _guarantees: dict[tuple[int, Bucket], tuple[tuple[int, int], ...]] = field(default_factory=dict, repr=False)
    """Filled on demand."""

    @classmethod
    def of(cls, queues: Iterable[TenantQueue], inventory: Inventory) -> QueueTree:
        ordered = tuple(sorted(queues, key=lambda queue: queue.name))
        index_of = {queue.name: index for index, queue in enumerate(ordered)}
        broken = _broken(ordered, index_of)
        parent = tuple(
            -1 if queue.parent is None or queue.name in broken else index_of[queue.parent] for queue in ordered
        )
        children: list[list[int]] = [[] for _ in ordered]
        for index, upper in enumerate(parent):
            if upper >= 0:
                children[upper].append(index)
        roots = tuple(index for index, queue in enumerate(ordered) if parent[index] < 0 and queue.name not in broken)
        paths = tuple(_path(index, parent) for index in range(len(ordered)))
        above = [[ordered[queue] for queue in path] for path in paths]
        capacity = capacities(inventory)
        guaranteed = _scaled_guarantees(ordered, children, roots, capacity)
        quotas: list[QuotaLine] = []
        quotas_of: list[tuple[QuotaLine, ...]] = []
        for index, queue in enumerate(ordered):
            own = []
            for place, quota in enumerate(queue.quotas):
                text = f"queue {queue.name}, {scope_text(quota.scope)}"
                own.append(QuotaLine(len(quotas) + place, index, quota, guaranteed.get((index, place), 0), text))
            quotas.extend(own)
            quotas_of.append(tuple(own))
        return cls(
            queues=ordered,
            index=index_of,
            parent=parent,
            children=tuple(tuple(below) for below in children),
            roots=roots,
            paths=paths,
            broken=broken,
            quotas=tuple(quotas),
            quotas_of=tuple(quotas_of),
            user_lines_of=lines_by_queue(ordered),
            capacity=capacity,
            limits_lending=any(
                quota.lendable is not None and quota.lendable < quota.guaranteed
                for queue in ordered
                for quota in queue.quotas
            ),
            priorities=tuple((PriorityBounds.of(path, NUMBERS), PriorityBounds.of(path, CLASSES)) for path in above),
        )

    def root_of(self, queue: int) -> TenantQueue:
        """The root of its tree. All queues of a tree have the half-life of the root, so that they stay comparable, and
        its order."""
        return self.queues[self.paths[queue][-1]]

    def priority_bounds(self, queue: int, *, of_class: bool) -> PriorityBounds:
        """`of_class`: for a job that names a PriorityClass."""
        return self.priorities[queue][of_class]

    def allowed_priority(self, job: Job) -> int:
        """The priority that a running job counts with: its own, or the nearest that its queue allows."""
        queue = self.index.get(job.queue)
        if queue is None:
            return job.priority
        return self.priority_bounds(queue, of_class=bool(job.priority_class)).nearest(job.priority)

    def subtree(self, queue: int) -> tuple[int, ...]:
        """The queue and all below it."""
        return (queue, *(ancestor for child in self.children[queue] for ancestor in self.subtree(child)))

    def has_limits(self, queue: int) -> bool:
        """True if a limit between this queue and its root, or a lending limit, could refuse a job that fits on the
        nodes."""
        return self.limits_lending or any(
            bool(self.user_lines_of[ancestor])
            or any(limit is not None for line in self.quotas_of[ancestor] for limit in line.quota.limits)
            for ancestor in self.paths[queue]
        )

    def below_common_ancestor(self, one: int, other: int) -> tuple[int, int] | None:
        """The children of the lowest common ancestor on either path; None where one queue is above the other."""
        mine, theirs = self.paths[one], self.paths[other]
        common = 0
        while common < min(len(mine), len(theirs)) and mine[-1 - common] == theirs[-1 - common]:
            common += 1
        if common in (len(mine), len(theirs)):
            return None
        return mine[-1 - common], theirs[-1 - common]

    def user_lines(self, queue: int, user: str) -> tuple[UserLine, ...]:
        """Limits from the queue to its root under which this user counts, whatever the class and zone."""
        lines = [line for ancestor in self.paths[queue] for line in self.user_lines_of[ancestor]]
        return counting(lines, user) if lines else ()

    def path_quotas(self, queue: int, bucket: Bucket) -> tuple[QuotaLine, ...] | None:
        """Lines from the queue to its root that cover the bucket; None where one of them grants nothing there."""
        found: list[QuotaLine] = []
        for ancestor in self.paths[queue]:
            matching = [line for line in self.quotas_of[ancestor] if line.matches(bucket)]
            if not matching and (self.quotas_of[ancestor] or ancestor == queue):
                return None
            found.extend(matching)
        return tuple(found)

    def guarantees(self, queue: int, bucket: Bucket) -> tuple[tuple[int, int], ...]:
        """(line, what it guarantees) of this queue's lines that guarantee something there."""
        found = self._guarantees.get((queue, bucket))
        if found is None:
            lines = [line for line in self.quotas_of[queue] if line.quota.guaranteed and line.matches(bucket)]
            found = self._guarantees[queue, bucket] = tuple((line.index, line.guaranteed) for line in lines)
        return found


def capacities(inventory: Inventory) -> dict[Bucket, int]:
    """Milli-GPU per bucket that take work: healthy, on nodes that are ready."""
    found: dict[Bucket, int] = {}
    for number, kind in enumerate(inventory.kinds):
        per_node = (inventory.usable & (inventory.kind == number)).sum(axis=1)
        for place, zone in enumerate(inventory.zones):
            count = int(per_node[inventory.zone == place].sum())
            if count:
                bucket = (kind.gpu_class, zone)
                found[bucket] = found.get(bucket, 0) + count * WHOLE
    return found


def _path(queue: int, parent: Sequence[int]) -> tuple[int, ...]:
    path = [queue]
    while parent[path[-1]] >= 0:
        path.append(parent[path[-1]])
    return tuple(path)


def _broken(queues: Sequence[TenantQueue], index_of: Mapping[str, int]) -> dict[str, str]:
    broken: dict[str, str] = {}
    for queue in queues:
        seen = [queue.name]
        above = queue.parent
        while above is not None:
            if above not in index_of:
                broken[queue.name] = f"queue {seen[-1]} names the parent {above}, which does not exist"
                break
            if above in seen:
                broken[queue.name] = f"queue {queue.name} is below itself: {' → '.join([*seen, above])}"
                break
            seen.append(above)
            above = queues[index_of[above]].parent
    return broken


def _scaled_guarantees(
    queues: Sequence[TenantQueue],
    children: Sequence[Sequence[int]],
    roots: Sequence[int],
    capacity: Mapping[Bucket, int],
) -> dict[tuple[int, int], int]:
    """(queue, line) → guarantee, scaled where siblings' lines of one scope guarantee more than their parent has."""
    scaled: dict[tuple[int, int], int] = {}

    def descend(siblings: Sequence[int], above: Mapping[tuple[str | None, str | None], int]) -> None:
        total_of: dict[tuple[str | None, str | None], int] = {}
        for index in siblings:
            for quota in queues[index].quotas:
                scope = quota.scope
                total_of[scope] = total_of.get(scope, 0) + quota.guaranteed
        for index in siblings:
            own: dict[tuple[str | None, str | None], int] = {}
            for place, quota in enumerate(queues[index].quotas):
                scope = quota.scope
                there = amount_in(capacity, scope)
                ceiling = min(above.get(scope, there), there)
                total = total_of[scope]
                amount = quota.guaranteed if total <= ceiling else quota.guaranteed * ceiling // total
                scaled[index, place] = amount
                own[scope] = own.get(scope, 0) + amount
            # A child may be guaranteed more than its parent only if the parent has no line of that scope.
            descend(children[index], {scope: amount for scope, amount in own.items() if amount})

    descend(roots, {})
    return scaled
