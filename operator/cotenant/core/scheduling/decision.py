"""A decision that can be reused: a plan, and everything that it follows from, as a value that is compared.

`decide` returns the last decision again if nothing that it follows from has changed. It compares the cluster as counted
(`Accounting.content`), the small fields of the snapshot, and the policy. Of time it compares two things:
- The moment lies before the first instant that could change an answer (`Moment.until`).
- Queues that compete for a turn still rank in the same order, although past borrowing decays all the time.

The order of turns uses shares in no other way as long as no turn changes what is held. So a decision is not reused if
it has actions, or if a turn took a place or was promised one.

Advice to end within some time is worded again while a decision is reused: its instant stays (`smallest_change`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from cotenant.core.cycle.cycle import Cycle
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.explain.spec_changes import bounded_runtime, told_seconds
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Plan
from cotenant.core.policy import Policy
from cotenant.core.queueing.fair_share import DominantShares, past_shares
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage
from cotenant.core.scheduling.known import Known
from cotenant.core.snapshot.snapshot import Snapshot

_Rivals: TypeAlias = tuple[tuple[int, ...], ...]
"""Groups of queues; those of one group compete with each other for the next turn."""


@dataclass(frozen=True, slots=True, eq=False)
class Standings:
    """How rival queues rank by their shares, and the usage that the ranks follow from."""

    usage: Usage
    rivals: _Rivals
    ranks: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, shares: DominantShares, usage: Usage, jobs: Iterable[Job]) -> Standings:
        """`jobs`: those that take turns."""
        rivals = _rivals(usage.tree, {usage.tree.index[job.queue] for job in jobs})
        return cls(usage, rivals, _ranks(shares, usage, rivals))

    def are_the_same(self, snapshot: Snapshot, policy: Policy) -> bool:
        """True if rivals rank the same with past borrowing as it is now. The usage must not have changed."""
        shares = DominantShares(self.usage.tree, past_shares(snapshot, policy))
        return _ranks(shares, self.usage, self.rivals) == self.ranks


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    plan: Plan
    snapshot: Snapshot
    policy: Policy
    until: float
    """At any moment before then the decision would be the same."""
    known: Known
    standings: Standings | None
    """None: the decision cannot be reused."""
    advised_ends: Sequence[tuple[Job, float]]
    """Jobs that are advised to limit their run time so that they end by some instant, each with the instant."""
    worded_until: float
    """Before then the time that is left until these instants is worded the same."""

    @classmethod
    def of(
        cls,
        cycle: Cycle,
        requests: RequestResolver,
        plan: Plan,
        standings: Standings | None = None,
        ends: Sequence[tuple[Job, float]] = (),
    ) -> Decision:
        """The plan that was made in the cycle. `ends`: see `advised_ends`."""
        plan, worded_until = _worded(plan, ends, cycle.moment.at)
        return cls(
            plan=plan,
            snapshot=cycle.snapshot,
            policy=cycle.policy,
            until=cycle.moment.until,
            known=Known.of(cycle, requests),
            standings=standings,
            advised_ends=ends,
            worded_until=worded_until,
        )

    def at(self, now: float) -> Decision:
        """This decision, which still holds, with the time that is left worded as of now."""
        if now < self.worded_until:
            return self
        plan, until = _worded(self.plan, self.advised_ends, now)
        return replace(self, plan=plan, worded_until=until)

    def holds_for(self, snapshot: Snapshot, policy: Policy) -> bool:
        """True if `schedule` would make the same plan, except for the wording of the time that is left: see `at`."""
        return (
            self.standings is not None
            and self.snapshot.now <= snapshot.now < self.until
            and _is_same_cluster(self.snapshot, snapshot)
            and self.policy == policy
            and self.standings.are_the_same(snapshot, policy)
        )


def _worded(plan: Plan, ends: Sequence[tuple[Job, float]], now: float) -> tuple[Plan, float]:
    """(the plan with the time that is left until the advised ends worded as of now, until when it is worded so)."""
    verdicts, moment = dict(plan.verdicts), Moment(now)
    for job, at in ends:
        verdicts[job.key] = bounded_runtime(job, at, told_seconds(at, moment)).added_to(verdicts[job.key])
    return replace(plan, verdicts=verdicts), moment.until


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
        and (before.bookings, before.booked) == (now.bookings, now.booked)
    )


def _rivals(tree: QueueTree, with_jobs: set[int]) -> _Rivals:
    """Siblings in whose subtrees jobs wait; a parent joins its children if jobs of its own wait."""
    above: dict[int, set[int]] = {}
    for queue in with_jobs:
        path = tree.paths[queue]
        for child, parent in zip(path, (*path[1:], -1), strict=True):
            above.setdefault(parent, set()).add(child)
        if tree.children[queue]:
            above.setdefault(queue, set()).add(queue)
    return tuple(tuple(sorted(group)) for _, group in sorted(above.items()) if len(group) > 1)


def _ranks(shares: DominantShares, usage: Usage, rivals: _Rivals) -> tuple[tuple[int, ...], ...]:
    """Rank of each queue in its group of rivals; equal shares have equal ranks."""
    found = []
    for group in rivals:
        own = [shares.share(usage, queue) for queue in group]
        order = {share: rank for rank, share in enumerate(sorted(set(own)))}
        found.append(tuple(order[share] for share in own))
    return tuple(found)
