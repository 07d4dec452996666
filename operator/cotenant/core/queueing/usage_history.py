"""Past borrowing of queues, decayed.

`schedule` reads it as data in the snapshot. With half-life h, after t seconds a value v and a
constant rate r have become  v · 2^(−t/h)  +  r · h/ln 2 · (1 − 2^(−t/h)).
Example: h = one day; 4 GPUs borrowed for a day weigh half as much one day later.
Each tree of queues may have a half-life of its own, set on its root. Where it changes, what was remembered is scaled
so that it stands for the same average of GPUs: v · h'/h.

Entry penalty (Kueue's admission fair sharing): an admission that borrows counts at once for a minute of its use, so a
burst of short jobs cannot win again and again before its use is seen. An admission that fails gives the penalty back.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.core.model.failover import BorrowingRecord
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.queueing.fair_share import LN_2, borrowed, in_all
from cotenant.core.quota.tree import QueueTree
from cotenant.core.quota.usage import Usage
from cotenant.core.snapshot.snapshot import DecayedBorrowing

HALF_LIFE_S = 86_400
"""Default."""
_PENALTY_S = 60


class UsageHistory:
    def __init__(self, half_life_s: float) -> None:
        """`half_life_s`: of trees without a half-life of their own."""
        self._half_life_s = half_life_s
        self._borrowed: dict[str, float] = {}
        self._half_lives: dict[str, float] = {}
        """Queue → half-life of its value."""
        self._penalties: dict[str, tuple[tuple[str, int], ...]] = {}
        """Job → (queue, charge) of its admission, until the job is gone or the admission is taken back."""
        self._at: float | None = None

    def advance(self, now: float, usage: Usage) -> None:
        """Decay what is remembered up to `now`, and add what was borrowed since, with the usage of this moment."""
        self._update_half_lives(usage.tree)
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        if not passed:
            return
        before = self._borrowed
        self._borrowed = {}
        for index, queue in enumerate(usage.tree.queues):
            kept, gained = _decay(passed, self._half_lives[queue.name])
            value = before.get(queue.name, 0.0) * kept + in_all(borrowed(usage, index)) * gained
            if value >= 1.0:
                self._borrowed[queue.name] = value

    def _update_half_lives(self, tree: QueueTree) -> None:
        """Take over the half-lives of the tree."""
        before = self._half_lives
        self._half_lives = {
            queue.name: tree.root_of(index).half_life_s or self._half_life_s for index, queue in enumerate(tree.queues)
        }
        for name, held in self._borrowed.items():
            now = self._half_lives.get(name)
            if now is not None and before.get(name, now) != now:
                self._borrowed[name] = held * now / before[name]

    def restore(self, borrowing: Iterable[BorrowingRecord], now: float) -> None:
        """Continue what another history had come to, carried forward to now."""
        self._borrowed, self._half_lives, self._penalties, self._at = {}, {}, {}, now
        for past in borrowing:
            half_life_s = self._half_lives[past.queue] = past.half_life_s or self._half_life_s
            kept, gained = _decay(max(0.0, now - past.at), half_life_s)
            self._borrowed[past.queue] = past.milli_seconds * kept + past.rate_milli * gained

    def charge_penalty(self, job: Job, milli: int, usage: Usage) -> None:
        """Charge an admission at once to those queues of its path that borrow."""
        index = usage.tree.index.get(job.queue)
        path = () if index is None else usage.tree.paths[index]
        charged = tuple(
            (usage.tree.queues[ancestor].name, milli * _PENALTY_S) for ancestor in path if borrowed(usage, ancestor)
        )
        for name, amount in charged:
            self._borrowed[name] = self._borrowed.get(name, 0.0) + amount
        self._penalties[job.key] = charged

    def refund_penalty(self, key: str) -> None:
        """Give back the charge of an admission that did not happen."""
        for name, amount in self._penalties.pop(key, ()):
            self._borrowed[name] = max(0.0, self._borrowed.get(name, 0.0) - amount)

    def job_left(self, key: JobKey) -> None:
        """The penalty of its admission stays."""
        self._penalties.pop(key, None)

    def borrowing(self) -> tuple[DecayedBorrowing, ...]:
        return tuple(
            DecayedBorrowing(queue=name, milli_seconds=held, half_life_s=self._half_lives.get(name, self._half_life_s))
            for name, held in sorted(self._borrowed.items())
        )


def _decay(passed: float, half_life_s: float) -> tuple[float, float]:
    """(what is kept of a value, what a rate of one has come to) after so many seconds."""
    kept = 2.0 ** (-passed / half_life_s)
    return kept, half_life_s / LN_2 * (1.0 - kept)
