"""The ledger: what was charged for each job so far, and the charge for what it has held since. Each is charged once.

The job's status has the sum of what it has held, which only grows. A charge is the difference to the ledger. So the
charges of a job always add up to its status, whoever looks, how often, and whatever the clock did. A ledger that is
read back from its lines continues at their end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cotenant.decision_log.measured_use import NOTHING_MEASURED, MeasuredUse
from cotenant.decision_log.showback.charges import UsageCharge, split


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSoFar:
    """What a job has held over all finished attempts, in milli-GPU × seconds."""

    namespace: str
    name: str
    uid: str
    queue: str
    user: str = ""
    gpu_class: str = ""
    """Class of the last attempt."""
    since: int
    """Beginning of the first attempt that may not have been charged."""
    last_since: int
    last_until: int
    last_amount: int = 0
    total: int
    preempted: int = 0
    """The part of the total that was lost to preemption."""
    faulted: int = 0
    use: MeasuredUse = NOTHING_MEASURED


@dataclass(slots=True)
class _Charged:
    total: int = 0
    preempted: int = 0
    faulted: int = 0
    samples: int = 0
    idle_samples: int = 0


@dataclass(slots=True)
class UsageLedger:
    _charged: dict[str, _Charged] = field(default_factory=dict)
    """Uid of a job → what was charged."""

    def restore(self, charges: Iterable[UsageCharge]) -> None:
        """Continue after these charges, instead of the known ones."""
        self._charged.clear()
        for one in charges:
            known = self._charged.setdefault(one.uid, _Charged())
            known.total += one.held
            known.preempted += one.lost_to_preemption
            known.faulted += one.lost_to_faults

    def charged(self, uid: str) -> int:
        """Milli-GPU × seconds that a job was charged so far."""
        known = self._charged.get(uid)
        return known.total if known else 0

    def charge(self, held: HeldSoFar) -> UsageCharge | None:
        """Charge for what the job has held since the last charge, and note it; None if there is nothing."""
        known = self._charged.setdefault(held.uid, _Charged())
        amount = held.total - known.total
        if amount <= 0:
            return None
        alone = amount <= held.last_amount
        use = held.use
        parts = split(
            amount,
            preempted=max(0, held.preempted - known.preempted),
            faulted=max(0, held.faulted - known.faulted),
            idle_samples=max(0, use.idle_samples - known.idle_samples),
            samples=max(0, use.busy_samples - known.samples),
        )
        known.total = held.total
        known.preempted += parts["lost_to_preemption"]
        known.faulted += parts["lost_to_faults"]
        known.samples, known.idle_samples = use.busy_samples, use.idle_samples
        return UsageCharge(
            namespace=held.namespace,
            name=held.name,
            uid=held.uid,
            queue=held.queue,
            user=held.user,
            gpu_class=held.gpu_class,
            since=held.last_since if alone else min(held.since, held.last_since),
            until=max(held.last_until, held.last_since),
            **parts,
        )

    def going_on(self, held: HeldSoFar) -> UsageCharge | None:
        """The charge for a running attempt, for a question. Nothing is noted."""
        known = self._charged.get(held.uid)
        return UsageLedger({held.uid: replace(known)} if known else {}).charge(held)

    def forget(self, uids: Iterable[str]) -> None:
        """Forget jobs that are gone for good."""
        for uid in uids:
            self._charged.pop(uid, None)
