"""The tree of queues with what each holds, and the arithmetic of its dominant share, line by line.

The share is that of `core.queueing.fair_share`: the largest value of borrowed / capacity over the scopes in which
something is borrowed, plus past borrowing, divided by the weight. The terms add up to the figure that decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cotenant.core.queueing.fair_share import PPM, DominantShares, borrowed, in_all, past_shares
from cotenant.query.situation import Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """One quota line; amounts in milli-GPU."""

    gpu_class: str | None
    zone: str | None
    guaranteed: int
    effective: int
    """The part of the guarantee that exists today."""
    limit: int | None
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTerm:
    """One scope in which a queue borrows: borrowed / capacity, in parts per million."""

    scope: str | None
    """Class; None means all GPUs."""
    borrowed: int
    capacity: int
    ppm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSum:
    terms: tuple[ShareTerm, ...]
    past_ppm: int
    weight: int
    ppm: int
    """(largest term + past) / weight: lower goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """One queue of the tree, parents before children."""

    name: str
    parent: str | None
    depth: int
    guaranteed: int
    used: int
    borrowed: int
    waiting: int
    """Jobs of this queue and of those below it."""
    holding: int
    quotas: tuple[QuotaUse, ...]
    share: ShareSum
    broken: str = ""
    hold: str = ""
    """Why an administrator lets no job of it start; empty if jobs start."""


def queue_tree(situation: Situation) -> tuple[QueueLine, ...]:
    """All queues, each below its parent, by name."""
    tree = situation.accounting.tree
    past = past_shares(situation.snapshot, situation.policy)
    shares = DominantShares(tree, past)
    waiting, holding = _counts(situation)
    return tuple(
        _line(situation, number, depth, (shares, past, waiting, holding)) for number, depth in _in_order(situation)
    )


def _in_order(situation: Situation) -> Iterator[tuple[int, int]]:
    """(queue, depth), parents first; queues outside the tree last."""
    tree = situation.accounting.tree
    seen: set[int] = set()
    todo = [(root, 0) for root in reversed(tree.roots)]
    while todo:
        number, depth = todo.pop()
        seen.add(number)
        yield number, depth
        todo += [(child, depth + 1) for child in reversed(tree.children[number])]
    yield from ((number, 0) for number in range(len(tree.queues)) if number not in seen)


def _line(
    situation: Situation,
    number: int,
    depth: int,
    known: tuple[DominantShares, dict[str, int], list[int], list[int]],
) -> QueueLine:
    shares, past, waiting, holding = known
    tree, usage = situation.accounting.tree, situation.accounting.usage
    queue = tree.queues[number]
    over = borrowed(usage, number)
    terms = tuple(
        ShareTerm(scope=scope, borrowed=milli, capacity=_capacity(situation, scope),
                  ppm=milli * PPM // _capacity(situation, scope))
        for scope, milli in sorted(over.items(), key=lambda one: one[0] or "")
    )  # fmt: skip
    quotas = tuple(
        QuotaUse(gpu_class=line.quota.gpu_class, zone=line.quota.zone, guaranteed=line.quota.guaranteed,
                 effective=line.guaranteed, limit=line.quota.limit, used=usage.quota_milli[line.index])
        for line in tree.quotas_of[number]
    )  # fmt: skip
    return QueueLine(
        name=queue.name,
        parent=queue.parent,
        depth=depth,
        guaranteed=sum(line.effective for line in quotas),
        used=usage.held_milli(number),
        borrowed=in_all(over),
        waiting=waiting[number],
        holding=holding[number],
        quotas=quotas,
        share=ShareSum(
            terms=terms, past_ppm=past.get(queue.name, 0), weight=queue.weight, ppm=shares.share(usage, number)
        ),
        broken=tree.broken.get(queue.name, ""),
        hold=queue.hold,
    )


def _capacity(situation: Situation, scope: str | None) -> int:
    """Milli-GPU that take work today, at least 1."""
    capacity = situation.accounting.tree.capacity
    found = sum(milli for (name, _), milli in capacity.items() if scope in (None, name))
    return max(1, found)


def _counts(situation: Situation) -> tuple[list[int], list[int]]:
    """Waiting jobs, and jobs that hold GPUs, of each queue and those below it."""
    tree = situation.accounting.tree
    waiting, holding = [0] * len(tree.queues), [0] * len(tree.queues)
    for job in situation.snapshot.jobs:
        if (number := tree.index.get(job.queue)) is not None:
            counts = waiting if job.placement is None else holding
            for ancestor in tree.paths[number]:
                counts[ancestor] += 1
    return waiting, holding
