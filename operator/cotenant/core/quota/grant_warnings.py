"""Warnings about queues above that keep a grant from being used, before it is approved and while it is live.

Without the warnings nothing would break: limits of queues above hold whatever is granted below them, and if siblings
are guaranteed more than their parent, all their guarantees are scaled down. But a promise that cannot be kept misleads
people who plan with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cotenant.core.model.formatting import format_gpus
from cotenant.core.model.objects import TenantQueue
from cotenant.core.quota.bookings import path_of
from cotenant.core.quota.grants import GrantLine
from cotenant.core.quota.scopes import Scope, covers, scope_text


def beyond_parents(queues: Mapping[str, TenantQueue], name: str, line: GrantLine) -> Iterator[str]:
    """One sentence for each queue above in which this line of a grant to `name` finds no room; the grant is counted in
    `queues` already.
    """
    granted = queues.get(name)
    if granted is None or line.user is not None:
        return
    mine = next((one for one in granted.quotas if one.scope == line.scope), None)
    scope = line.scope
    for above in path_of(queues, granted)[1:]:
        if not above.quotas:
            continue
        covering = [one for one in above.quotas if covers(one.scope, scope)]
        if not covering:
            yield f"queue {above.name} above has no quota that covers {scope_text(scope)}"
            continue
        limits = [one.limit for one in covering if one.limit is not None]
        wanted = None if mine is None else mine.limit
        if limits and (wanted is None or wanted > min(limits)):
            has = "as much as it likes" if wanted is None else f"{format_gpus(wanted)} GPU"
            most = format_gpus(min(limits))
            yield f"queue {above.name} above may hold {most} GPU of {scope_text(scope)}, and {name} {has}"
    yield from _beyond_guarantee(queues, granted, line)


def _beyond_guarantee(queues: Mapping[str, TenantQueue], granted: TenantQueue, line: GrantLine) -> Iterator[str]:
    """Children are guaranteed more than their parent, by lines of the same class and zone."""
    parent = queues.get(granted.parent or "")
    if parent is None or not line.guaranteed:
        return
    scope = line.scope
    if scope not in [one.scope for one in parent.quotas]:
        return
    has = _guaranteed(parent, scope)
    promised = sum(_guaranteed(queue, scope) for queue in queues.values() if queue.parent == parent.name)
    if promised > has:
        yield (
            f"queue {parent.name} is guaranteed {format_gpus(has)} GPU of {scope_text(scope)},"
            f" and the queues below it {format_gpus(promised)} together, so each of their guarantees counts for less"
        )


def _guaranteed(queue: TenantQueue, scope: Scope) -> int:
    return sum(one.guaranteed for one in queue.quotas if one.scope == scope)
