"""Queues above that would keep a grant from being used: said before it is approved, and while it is live.

Nothing breaks without it. Limits of queues above hold whatever is granted below them, and where siblings are guaranteed
more than their parent is, all of them count with less. But what is promised and cannot be held misleads whoever plans
with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cotenant.core.model.formatting import format_gpus
from cotenant.core.model.objects import Quota, TenantQueue
from cotenant.core.quota.grants import GrantLine


def beyond_parents(queues: Mapping[str, TenantQueue], name: str, line: GrantLine) -> Iterator[str]:
    """One sentence for each queue above in which this line of a grant to `name` finds no room; the grant is counted in
    `queues` already.
    """
    granted = queues.get(name)
    if granted is None or line.user is not None:
        return
    mine = next((one for one in granted.quotas if (one.gpu_class, one.zone) == (line.gpu_class, line.zone)), None)
    for above in _ancestors(queues, granted):
        if not above.quotas:
            continue
        covering = [one for one in above.quotas if _covers(one, line)]
        where = f"class {line.gpu_class or 'any'}, zone {line.zone or 'any'}"
        if not covering:
            yield f"queue {above.name} above is granted nothing that covers {where}"
            continue
        limits = [one.limit for one in covering if one.limit is not None]
        wanted = None if mine is None else mine.limit
        if limits and (wanted is None or wanted > min(limits)):
            has = "as much as it likes" if wanted is None else f"{format_gpus(wanted)} GPU"
            yield f"queue {above.name} above may hold {format_gpus(min(limits))} GPU of {where}, and {name} {has}"
    yield from _beyond_guarantee(queues, granted, line)


def _beyond_guarantee(queues: Mapping[str, TenantQueue], granted: TenantQueue, line: GrantLine) -> Iterator[str]:
    """Children are guaranteed more than their parent, by lines of the same class and zone."""
    parent = queues.get(granted.parent or "")
    if parent is None or not line.guaranteed:
        return
    scope = (line.gpu_class, line.zone)
    if scope not in [(one.gpu_class, one.zone) for one in parent.quotas]:
        return
    has = _guaranteed(parent, scope)
    promised = sum(_guaranteed(queue, scope) for queue in queues.values() if queue.parent == parent.name)
    if promised > has:
        yield (
            f"queue {parent.name} is guaranteed {format_gpus(has)} GPU of class {scope[0] or 'any'}, zone"
            f" {scope[1] or 'any'}, and the queues below it {format_gpus(promised)} together: each counts with less"
        )


def _guaranteed(queue: TenantQueue, scope: tuple[str | None, str | None]) -> int:
    return sum(one.guaranteed for one in queue.quotas if (one.gpu_class, one.zone) == scope)


def _ancestors(queues: Mapping[str, TenantQueue], queue: TenantQueue) -> Iterator[TenantQueue]:
    """Nearest first. A circle of parents ends where it began."""
    seen = {queue.name}
    above = queues.get(queue.parent or "")
    while above is not None and above.name not in seen:
        seen.add(above.name)
        yield above
        above = queues.get(above.parent or "")


def _covers(quota: Quota, line: GrantLine) -> bool:
    return quota.gpu_class in (None, line.gpu_class) and quota.zone in (None, line.zone)
