"""Limits of users as lines of the queue tree: of one user or of every user, of a class and zone or of any.

The most specific line counts: a line that names the user replaces the one for every user of the same queue, class and
zone. It may be larger or smaller. Lines of different classes and zones, and lines of queues above, must all allow a
request, as quotas must.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from cotenant.core.model.objects import TenantQueue, UserLimit


@dataclass(frozen=True, slots=True)
class UserLine:
    """One limit of one queue's users, counted for each user apart."""

    index: int
    queue: int
    limit: UserLimit

    def matches(self, bucket: tuple[str, str]) -> bool:
        """The line counts what lies in this (GPU class, zone)."""
        return self.limit.gpu_class in (None, bucket[0]) and self.limit.zone in (None, bucket[1])

    @property
    def scope(self) -> tuple[str | None, str | None]:
        return self.limit.scope


def lines_by_queue(queues: Sequence[TenantQueue]) -> tuple[tuple[UserLine, ...], ...]:
    """Lines of each queue, numbered through all of them."""
    found: list[tuple[UserLine, ...]] = []
    numbers = count()
    for index, queue in enumerate(queues):
        short = () if queue.user_limit is None else (UserLimit(limit=queue.user_limit),)
        limits = (*short, *queue.user_limits)
        found.append(tuple(UserLine(next(numbers), index, limit) for limit in limits))
    return tuple(found)


def counting(lines: Sequence[UserLine], user: str) -> tuple[UserLine, ...]:
    """Those of the lines under which this user counts."""
    named = {(line.queue, line.scope) for line in lines if line.limit.user == user}
    return tuple(
        line
        for line in lines
        if line.limit.user == user or (line.limit.user is None and (line.queue, line.scope) not in named)
    )
