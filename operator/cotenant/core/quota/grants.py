"""Grants: what a queue has for some time beyond its quotas. Its effective quotas are its quotas and all live grants.

A grant must only add. But every line that matches a request must allow it, so a new line would take something away if
another line counts the same GPUs: it limits them too, and a job inside one guarantee must be inside both. So a grant
does one of these:
- It raises the line of its own class and zone. If that line has no guarantee and another line guarantees the same GPUs,
  only the limit is raised.
- It becomes a new line, if no line of the queue counts any of these GPUs, and the queue does not only group others.
- A grant to a user raises the limit of that user, or adds an exception to the limit for everybody.
- Otherwise it adds nothing, and says which line to ask for instead.

So each line allows and guarantees at least what it did before, and at most as much more as was approved. Limits of
queues above hold as before. Grants are added in the order in which they were approved; a line that one of them added
counts for later ones like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cotenant.core.model.formatting import format_gpus
from cotenant.core.model.objects import Quota, TenantQueue, UserLimit
from cotenant.core.quota.scopes import Scope, meet, scope_text


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantLine:
    """More for one line: milli-GPU and MiB."""

    gpu_class: str | None = None
    zone: str | None = None
    user: str | None = None
    """None: for the queue."""
    milli: int
    guaranteed: int = 0
    memory_mib: int = 0

    @property
    def scope(self) -> Scope:
        return self.gpu_class, self.zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    key: str
    """Of the request that was approved: `namespace/name`."""
    queue: str
    since: float
    until: float
    """Unix seconds; the grant is live before then."""
    lines: tuple[GrantLine, ...]

    def is_live(self, now: float) -> bool:
        return now < self.until


@dataclass(frozen=True, slots=True)
class NotAdded:
    """One line of a grant that adds nothing, or no guarantee, and why."""

    grant: str
    line: GrantLine
    why: str


def with_grants(
    queue: TenantQueue, grants: Iterable[Grant], *, has_children: bool
) -> tuple[TenantQueue, tuple[NotAdded, ...]]:
    """The queue with all these grants, which are its own and live, and what could not be added."""
    left_out: list[NotAdded] = []
    for grant in sorted(grants, key=lambda one: (one.since, one.key)):
        for line in grant.lines:
            queue, why = _with_line(queue, line, has_children=has_children)
            if why:
                left_out.append(NotAdded(grant.key, line, why))
    return queue, tuple(left_out)


def _with_line(queue: TenantQueue, line: GrantLine, *, has_children: bool) -> tuple[TenantQueue, str]:
    if not (line.milli or line.guaranteed or line.memory_mib):
        return queue, f"it asks for nothing: 0 GPUs more for {scope_text(line.scope)}"
    if line.user is not None:
        return _with_user(queue, line)
    scope = line.scope
    place = next((place for place, one in enumerate(queue.quotas) if one.scope == scope), None)
    others = [one for number, one in enumerate(queue.quotas) if number != place and meet(one.scope, scope)]
    if place is not None:
        before = queue.quotas[place]
        if not line.guaranteed and not _has_limit(before, line):
            return queue, (
                f"{_lines([before])} of queue {queue.name} has no limit that would be raised; ask for more guaranteed"
                " GPUs, if the queue waits for others"
            )
        shadowed = line.guaranteed > 0 and before.guaranteed == 0 and any(one.guaranteed for one in others)
        raised = _raised(before, replace(line, guaranteed=0) if shadowed else line)
        quotas = (*queue.quotas[:place], raised, *queue.quotas[place + 1 :])
        return replace(queue, quotas=quotas), _guaranteed_elsewhere(others) if shadowed else ""
    if others:
        verb, which = ("allows", "that quota") if len(others) == 1 else ("allow", "those quotas")
        return queue, (
            f"queue {queue.name} has no quota for {_scope(scope)} alone, and one of {format_gpus(line.milli)} GPUs"
            f" would limit what {_lines(others)} {verb} for the same GPUs; ask for more of {which}"
        )
    if not queue.quotas and has_children:
        return queue, f"queue {queue.name} has no quotas of its own and only groups others; ask for more of one of them"
    own = Quota(gpu_class=line.gpu_class, zone=line.zone, guaranteed=line.guaranteed, limit=line.milli)
    return replace(queue, quotas=(*queue.quotas, own)), ""


def _raised(quota: Quota, line: GrantLine) -> Quota:
    """The line, raised. None stays None: there is no limit to raise, or the whole guarantee may be lent."""
    memory = quota.memory_limit_mib
    return replace(
        quota,
        guaranteed=quota.guaranteed + line.guaranteed,
        limit=None if quota.limit is None else quota.limit + line.milli,
        lendable=None if quota.lendable is None else quota.lendable + line.guaranteed,
        memory_limit_mib=None if memory is None else memory + line.memory_mib,
    )


def _with_user(queue: TenantQueue, line: GrantLine) -> tuple[TenantQueue, str]:
    scope = line.scope
    limits = {(one.user, one.gpu_class, one.zone): one for one in queue.user_limits}
    everybody = limits.get((None, *scope))
    if everybody is None and scope == (None, None) and queue.user_limit is not None:
        everybody = UserLimit(limit=queue.user_limit)
    own = limits.get((line.user, *scope))
    before = own or everybody
    if before is None:
        where = scope_text(scope)
        return queue, f"queue {queue.name} has no user limit for {where}, so there is nothing to raise for {line.user}"
    raised = replace(
        before,
        user=line.user,
        limit=None if before.limit is None else before.limit + line.milli,
        memory_limit_mib=None if before.memory_limit_mib is None else before.memory_limit_mib + line.memory_mib,
    )
    others = tuple(one for one in queue.user_limits if one is not own)
    return replace(queue, user_limits=(*others, raised)), ""


def _guaranteed_elsewhere(others: list[Quota]) -> str:
    lines = [one for one in others if one.guaranteed]
    verb = "guarantees" if len(lines) == 1 else "guarantee"
    return f"{_lines(lines)} {verb} the same GPUs already; ask for a larger guarantee there. The limit is raised"


def _lines(quotas: list[Quota]) -> str:
    scopes = [_scope(one.scope) for one in quotas]
    return f"the quota{'s' if len(scopes) > 1 else ''} for {' and for '.join(scopes)}"


def _scope(scope: Scope) -> str:
    return "all GPUs" if scope == (None, None) else scope_text(scope)


def _has_limit(quota: Quota, line: GrantLine) -> bool:
    """True if this line of a grant raises a limit of the quota."""
    limits = (line.milli, quota.limit), (line.memory_mib, quota.memory_limit_mib)
    return any(more and limit is not None for more, limit in limits)
