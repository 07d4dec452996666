"""A decision that can be kept: a plan, and all that it follows from, as a value that is compared.

`decide` goes on from the last decision: where nothing that it follows from has changed, the plan is the same, and is
given again. Compared are the cluster as counted (`Accounting.content`), the small fields of the snapshot, the policy,
and of time two things: the moment lies before the first instant that could change an answer (`Moment.until`), and past
borrowing, which decays all the time, still ranks queues that compete for a turn in the same order. The order of turns
looks at shares in no other way, as long as no turn changes what is held; so a decision in which some turn took or was
promised a place is not kept, nor is one that acts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from cotenant.core.cycle.running_jobs import RunningJobs
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Plan
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.policy import Policy
from cotenant.core.queueing.fair_share import DominantShares, past_shares
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage
from cotenant.core.snapshot.snapshot import Snapshot

_Rivals: TypeAlias = tuple[tuple[int, ...], ...]
"""Queues that compete with each other for the next turn."""


@dataclass(frozen=True, slots=True, eq=False)
class Standings:
    """Order of rival queues by their shares, with what they hold during the turns."""

    shares: DominantShares
    usage: Usage
    rivals: _Rivals
    ranks: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, shares: DominantShares, usage: Usage, jobs: Iterable[Job]) -> Standings:
        """`jobs`: that take turns."""
        rivals = _rivals(usage.tree, {usage.tree.index[job.queue] for job in jobs})
        return cls(shares, usage, rivals, _ranks(shares, usage, rivals))

    def are_the_same(self, snapshot: Snapshot, policy: Policy) -> bool:
        """With what past borrowing adds to shares now. The usage must be what it was."""
        shares = self.shares.with_past(past_shares(snapshot, policy))
        return _ranks(shares, self.usage, self.rivals) == self.ranks


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    plan: Plan
    snapshot: Snapshot
    policy: Policy
    until: float
    """It would be the same at any moment before then."""
    running: RunningJobs
    """With what was worked out of them."""
    requests: RequestResolver
    fits: FitCache
    """As the cycle left them."""
    standings: Standings | None
    """None: the decision cannot be kept."""

    def holds_for(self, snapshot: Snapshot, policy: Policy) -> bool:
        """`schedule` would come to the same plan."""
        return (
            self.standings is not None
            and self.snapshot.now <= snapshot.now < self.until
            and _is_same_cluster(self.snapshot, snapshot)
            and self.policy == policy
            and self.standings.are_the_same(snapshot, policy)
        )


def _is_same_cluster(before: Snapshot, now: Snapshot) -> bool:
    if before.accounting is None or now.accounting is None:
        return False
    return (
        before.accounting.content is now.accounting.content
        and before.watched_since == now.watched_since
        and before.runtimes is now.runtimes
        and (before.nominations, before.nominated_earlier, before.evicted)
        == (now.nominations, now.nominated_earlier, now.evicted)
        and before.demand_history == now.demand_history
    )


def _rivals(tree: QueueTree, with_jobs: set[int]) -> _Rivals:
    """Siblings below which jobs wait, and beside them their parent where jobs of its own do."""
    above: dict[int, set[int]] = {}
    for queue in with_jobs:
        path = tree.paths[queue]
        for child, parent in zip(path, (*path[1:], -1), strict=True):
            above.setdefault(parent, set()).add(child)
        if tree.children[queue]:
            above.setdefault(queue, set()).add(queue)
    return tuple(tuple(sorted(group)) for _, group in sorted(above.items()) if len(group) > 1)


def _ranks(shares: DominantShares, usage: Usage, rivals: _Rivals) -> tuple[tuple[int, ...], ...]:
    """Rank of each rival among its own; equal shares have equal ranks."""
    found = []
    for group in rivals:
        own = [shares.share(usage, queue) for queue in group]
        order = {share: rank for rank, share in enumerate(sorted(set(own)))}
        found.append(tuple(order[share] for share in own))
    return tuple(found)
