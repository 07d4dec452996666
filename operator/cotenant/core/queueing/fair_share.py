"""Guarantees, and the dominant share of what is borrowed.

Dominant share (DRF, Ghodsi et al., NSDI 2011; Kueue's fair sharing measures it over borrowed quota in the same way):
    share(q) = max over scopes s of  (used(q, s) − guaranteed(q, s))⁺ / capacity(s) / weight(q)
in parts per million, where s runs over the classes and, for a line that names none, over all GPUs.
Example: 4 of 16 H100 borrowed, weight 2 → 4/16/2 = 125,000 ppm. Decayed past borrowing is added with a weight
(time-aware fair share as in KAI-Scheduler and Kueue's admission fair sharing). Usage is exact, so what was handed out a
moment ago counts at once. A queue of weight 0 that borrows comes after every queue with a positive weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import TypeAlias

from cotenant.core.allocation.request import Request
from cotenant.core.model.objects import WHOLE
from cotenant.core.policy import Policy
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Charge, Usage
from cotenant.core.snapshot.snapshot import Snapshot

PPM = 1_000_000
LN_2 = log(2)
_LAST = 1 << 50


def within_guarantee(usage: Usage, request: Request, queue: int) -> bool:
    """True if this queue of the path stays inside its guarantee with the whole gang on top."""
    held = usage.quota_milli
    return any(all(held[line] <= most for line, most in one) for one in request.guarantee_terms[queue])


def charge_within_guarantee(usage: Usage, queue: int, charge: Charge, *, is_counted: bool) -> bool:
    """True if the charge lies inside the queue's guarantees with all that is used. `is_counted`: it is used already."""
    added: dict[int, int] = {}
    for bucket, amounts in charge.amounts:
        guarantees = usage.tree.guarantees(queue, bucket)
        if not guarantees:
            return False
        for line, _ in guarantees:
            added[line] = added.get(line, 0) + (0 if is_counted else amounts.milli)
    return all(
        usage.quota_milli[number] + more <= usage.tree.quotas[number].guaranteed for number, more in added.items()
    )


GuaranteesByClass: TypeAlias = tuple[int, dict[str, int]]
"""(guaranteed by lines that name no class, class → guaranteed)."""


def guarantees_of(tree: QueueTree, queue: int) -> GuaranteesByClass:
    """Lines that only limit are left out: use of their class may be covered by a wider line's guarantee."""
    by_class: dict[str, int] = {}
    overall = 0
    for line in tree.quotas_of[queue]:
        if line.quota.gpu_class is not None and line.quota.guaranteed:
            by_class[line.quota.gpu_class] = by_class.get(line.quota.gpu_class, 0) + line.guaranteed
        elif line.quota.gpu_class is None:
            overall += line.guaranteed
    return overall, by_class


def borrowed(usage: Usage, queue: int) -> dict[str | None, int]:
    """Scope (a class, or None for all) → milli-GPU above the guarantee."""
    return _above_guarantee(usage.class_milli[queue], guarantees_of(usage.tree, queue))


def in_all(over: Mapping[str | None, int]) -> int:
    """What `borrowed` is together."""
    return over[None] if None in over else sum(over.values())


def _above_guarantee(held: Mapping[str, int], guarantees: GuaranteesByClass) -> dict[str | None, int]:
    overall, by_class = guarantees
    found: dict[str | None, int] = {}
    if overall:
        above = sum(held.values()) - max(overall, sum(by_class.values()))
        if above > 0:
            found[None] = above
    for gpu_class, milli in held.items():
        if gpu_class in by_class or not overall:
            above = milli - by_class.get(gpu_class, 0)
            if above > 0:
                found[gpu_class] = above
    return found


class DominantShares:
    """Shares of queues, comparable, cheap enough for every turn."""

    def __init__(self, tree: QueueTree, past: Mapping[str, int]) -> None:
        self._tree = tree
        self._guarantees = [guarantees_of(tree, queue) for queue in range(len(tree.queues))]
        self._past = [past.get(queue.name, 0) for queue in tree.queues]
        self._capacity: dict[str | None, int] = {None: max(1, sum(tree.capacity.values()))}
        for (gpu_class, _), milli in tree.capacity.items():
            self._capacity[gpu_class] = self._capacity.get(gpu_class, 0) + milli

    def share(self, usage: Usage, queue: int) -> int:
        """Parts per million, divided by the weight; lower goes first."""
        above = _above_guarantee(usage.class_milli[queue], self._guarantees[queue])
        total = self._past[queue]
        if above:
            total += max(milli * PPM // self._capacity.get(scope, 1) for scope, milli in above.items())
        weight = self._tree.queues[queue].weight
        if weight <= 0:
            return _LAST + total if total else 0
        return total // weight


def past_shares(snapshot: Snapshot, policy: Policy) -> dict[str, int]:
    """Queue → parts per million that past borrowing adds to its share.

    Decayed borrowing divided by the time that its half-life looks back is an average of GPUs borrowed. So trees with
    different half-lives are comparable.
    """
    total = max(1, sum(len(node.gpus) for node in snapshot.nodes)) * WHOLE
    return {
        past.queue: int(past.milli_seconds * LN_2 / past.half_life_s / total * PPM)
        * policy.share_history_percent
        // 100
        for past in snapshot.usage_history
    }
