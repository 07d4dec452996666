"""Queues that were deleted while their jobs hold GPUs: they stay in the tree until the last of these jobs has left.

A deleted queue guarantees nothing and starts nothing. What its jobs hold still counts under its parent, so that no
limit above it is exceeded, and all of it is borrowed, so that queues with a guarantee get it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cotenant.core.model.objects import Job, TenantQueue


def with_deleted(
    queues: Iterable[TenantQueue], jobs: Iterable[Job], before: Mapping[str, TenantQueue] | None = None
) -> tuple[TenantQueue, ...]:
    """The queues, and those that are not among them although jobs hold GPUs in their name.

    `before`: queues as they were last seen. A queue that was never seen is placed below the root, if there is only one
    tree.
    """
    there = tuple(queues)
    names = {queue.name for queue in there}
    missing = {job.queue for job in jobs if job.placement is not None and job.queue and job.queue not in names}
    if not missing:
        return there
    known, parent = before or {}, _only_root(there)
    deleted = (
        TenantQueue(name=name, parent=_parent(known[name], names) if name in known else parent, deleted=True)
        for name in sorted(missing)
    )
    return (*there, *deleted)


def _parent(queue: TenantQueue, names: set[str]) -> str | None:
    return queue.parent if queue.parent in names else None


def _only_root(queues: tuple[TenantQueue, ...]) -> str | None:
    """The root that has queues below it, if there is only one."""
    parents = {queue.parent for queue in queues}
    roots = [queue.name for queue in queues if queue.parent is None and queue.name in parents]
    return roots[0] if len(roots) == 1 else None
