"""Order of turns: guarantee → share → priority → age → key, level by level down the queue tree.

At every level the child that is next is the one whose head (its best job) has the smallest key
    (not inside the guarantee, share, −priority, age, job key).
After each decision only the path of that queue is put in order again, so a turn costs the depth of the tree.
The order is total: no two jobs compare equal, because keys end at the job's own. Which job is the best of one queue
depends on the order of its tree (`service`): the oldest, or the one that has had the least GPU time.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import TypeAlias

from cotenant.core.model.objects import Job
from cotenant.core.queueing.fair_share import DominantShares
from cotenant.core.queueing.service import Turn
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage

_Key: TypeAlias = tuple[bool, int, int, float, str]
WithinGuarantee: TypeAlias = Callable[[int, Job], bool]
"""(queue on the job's path, job) → the job would stay inside that queue's guarantee."""

_ROOT = -1
_ONLY_CHILD: _Key = (False, 0, 0, 0.0, "")
"""A queue without children competes with nothing below itself."""


class QueueOrder:
    """Iterator over pending jobs of queues that exist. The next one is chosen when it is asked for, with the usage that
    the decision on the one before has left."""

    def __init__(
        self,
        tree: QueueTree,
        usage: Usage,
        shares: DominantShares,
        within_guarantee: WithinGuarantee,
        jobs: Iterable[Job],
        *,
        turn: Callable[[Job], Turn],
    ) -> None:
        """`turn`: of jobs of one queue, lower first."""
        self._tree, self._usage, self._shares, self._within_guarantee = tree, usage, shares, within_guarantee
        self._jobs: list[list[Job]] = [[] for _ in tree.queues]
        self._children: dict[int, list[tuple[_Key, int]]] = {}
        for job in jobs:
            self._jobs[tree.index[job.queue]].append(job)
        self._turn = turn
        for own in self._jobs:
            own.sort(key=self._turn, reverse=True)
        self._build(_ROOT)

    def __iter__(self) -> Iterator[Job]:
        while self._children[_ROOT]:
            path = self._pop_path()
            yield self._jobs[path[-1]].pop()
            for node, child in reversed([*pairwise((_ROOT, *path))]):  # in order again, after the decision
                self._push(node, child)

    def insert(self, job: Job) -> None:
        """One more job of the queue whose job had the last turn, while that turn lasts."""
        own = self._jobs[self._tree.index[job.queue]]
        own.reverse()
        insort(own, job, key=self._turn)
        own.reverse()

    def _pop_path(self) -> list[int]:
        """Take the path from a root to the queue whose job is next out of the order. The path lists that queue twice at
        its end.
        """
        path: list[int] = []
        at = _ROOT
        while True:
            _, child = heapq.heappop(self._children[at])
            path.append(child)
            if child == at:
                return path
            at = child

    def _build(self, node: int) -> None:
        self._children[node] = []
        for child in self._tree.roots if node == _ROOT else self._tree.children[node]:
            self._build(child)
            self._push(node, child)
        if node != _ROOT:
            self._push(node, node)

    def _push(self, node: int, child: int) -> None:
        """Put a child in order; the queue itself is a child if jobs of its own wait."""
        head = self._own_head(node) if child == node else self._head(child)
        if head is not None:
            alone = child == node and not self._tree.children[node]
            heapq.heappush(self._children[node], (_ONLY_CHILD if alone else self._key(child, head), child))

    def _own_head(self, node: int) -> Job | None:
        return self._jobs[node][-1] if self._jobs[node] else None

    def _head(self, node: int) -> Job | None:
        while self._children[node]:
            _, child = self._children[node][0]
            if child == node:
                return self._own_head(node)
            node = child
        return None

    def _key(self, queue: int, job: Job) -> _Key:
        return (
            not self._within_guarantee(queue, job),
            self._shares.share(self._usage, queue),
            -job.priority,
            job.submitted_at,
            job.key,
        )


def order_in_queue(job: Job) -> tuple[int, float, str]:
    """Inside one queue: priority → age → key."""
    return -job.priority, job.submitted_at, job.key
