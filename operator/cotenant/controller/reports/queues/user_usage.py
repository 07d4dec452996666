"""Holdings of users under the user limits of one Queue, for its status: a bounded list, those nearest to their limit
first. Pure.
"""

from __future__ import annotations

from fractions import Fraction

from cotenant.api.resources.queue_status import UserUsage, pooled_use
from cotenant.core.quota.usage import Usage
from cotenant.core.quota.user_lines import UserLine

MOST_USERS = 64
"""A queue may have any number of users, but its status is bounded."""


def users_of(usage: Usage, queue: int) -> tuple[UserUsage, ...]:
    """Users who hold something under a line of this queue, by how much of their limit they use."""
    lines = {line.index: line for line in usage.tree.user_lines_of[queue]}
    held = [(lines[number], user) for (number, user), milli in usage.of_users[0].items() if milli and number in lines]
    held.sort(key=lambda one: (-_part(usage, *one), one[1], one[0].index))
    return tuple(_usage(usage, line, user) for line, user in held[:MOST_USERS])


def _part(usage: Usage, line: UserLine, user: str) -> Fraction:
    key = line.index, user
    parts = zip(usage.of_users, line.limit.limits, strict=True)
    return max(Fraction(held.get(key, 0), max(1, most)) for held, most in parts if most is not None)


def _usage(usage: Usage, line: UserLine, user: str) -> UserUsage:
    held = [one.get((line.index, user), 0) for one in usage.of_users]
    amounts = {"limit": line.limit.limit, "used": held[0]}  # milli already
    shown = UserUsage(user=user, gpu_class=line.limit.gpu_class, zone=line.limit.zone)
    return shown.model_copy(update=amounts | pooled_use(held, line.limit.limits))
