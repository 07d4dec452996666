"""Turns by attained service, inside one queue: jobs that have had little GPU time go before those that have had much.

No run time has to be known. Run times of training are heavy-tailed: a job that has run for long is likely to run for
longer still. For such run times, least attained service first is the best order without further knowledge (Nuyens and
Wierman, 2008; Tiresias, Gu et al., NSDI 2019, for gangs on GPUs). As in Tiresias, service counts in levels, at 4, 32
and 256 GPU-hours. Inside a level the oldest job goes first, so equal jobs do not alternate.

`Predicted` orders each level by the GPU time that a job still needs, in powers of two: the median of similar jobs that
ran longer than it has, else its declaration, else as long again as it has run. A wrong prediction moves a job only
within its level.

*Evictions*. A job that has waited for `PATIENCE_S` may have a running job of its queue and priority evicted that is in
a higher level, if that one has run for `LEAST_RUN_S` since it was started, and at least `WORTH` times as long as the
eviction costs: what it has not saved, and a restart. So a job loses at most 1/`WORTH` of its work in this way and is
evicted at most once in `LEAST_RUN_S`; a job that never saves is not evicted. A job that leaves comes after the one that
it left for, because levels only rise.

*Starving*. A job that has waited more than `STARVES` times as long as it ran, and at least `STARVES_AFTER_S`, counts as
if it had not run: it goes before all jobs that came after it, and it is not evicted in this way.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, TypeAlias

from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import WHOLE, Job, TimeOrder
from cotenant.core.quota.tree import QueueTree
from cotenant.core.runtimes.learned import LearnedRuntimes

LEVELS: Final = tuple(hours * 3_600 for hours in (4, 32, 256))
"""GPU-seconds at which a job rises."""
PATIENCE_S: Final = 1_800
LEAST_RUN_S: Final = 8 * 3_600
WORTH: Final = 8
STARVES: Final = 4
STARVES_AFTER_S: Final = 24 * 3_600
GAP: Final = "it fits into a gap"
"""Clause about a job that no rule puts before the other: it starts first on a place that the other cannot use."""
_UNKNOWN_S: Final = 600
"""Assumed run time of a job that has not run and of which nothing is known."""

Turn: TypeAlias = tuple[int, int, int, float, str]
_RULES: Final = (
    "it has a higher priority",
    "it has had less GPU time",
    "it is expected to end sooner",
    "it is older",
    "it is older",
)
"""For each part of a `Turn`: why the job with the lower value goes first."""


class ServiceOrder:
    """Turns of one cycle. In a tree with the order `Age` all jobs are in one level."""

    __slots__ = ("_moment", "_restart_s", "_runtimes", "_tree")

    def __init__(self, tree: QueueTree, runtimes: LearnedRuntimes, moment: Moment, restart_s: int) -> None:
        self._tree, self._runtimes, self._moment, self._restart_s = tree, runtimes, moment, restart_s

    def turn(self, job: Job) -> Turn:
        """Lower goes first: priority → level → predicted rest → age → key."""
        order = self._order_of(job)
        rest = self._predicted_rest(job) if order is TimeOrder.PREDICTED else 0
        return -job.priority, self.level(job), rest, job.submitted_at, job.key

    def level(self, job: Job) -> int:
        if self._order_of(job) is TimeOrder.AGE or self._starves(job):
            return 0
        return bisect_right(LEVELS, self._ran_s(job) * asked_milli(job) // WHOLE)

    def evicts_above(self, job: Job) -> int | None:
        """Level above which jobs may be evicted for this one; None: it evicts no job in this way."""
        if self._order_of(job) is TimeOrder.AGE:
            return None
        return self.level(job) if self._moment.has_come(job.submitted_at + self._ran_s(job) + PATIENCE_S) else None

    def may_yield(self, job: Job, level: int) -> bool:
        """The running job is above the level, and its eviction is worth what it costs."""
        if job.admitted_at is None or not self._moment.has_come(job.admitted_at + LEAST_RUN_S):
            return False  # asked first: until then nothing here depends on the moment
        if self.level(job) <= level:
            return False
        now = self._moment.read()
        attempt_s = now - job.admitted_at
        unsaved_s = now - max(job.admitted_at, job.last_checkpoint_at or 0.0)
        return attempt_s >= WORTH * (unsaved_s + self._restart_s)

    def _order_of(self, job: Job) -> TimeOrder:
        queue = self._tree.index.get(job.queue)
        return TimeOrder.AGE if queue is None else self._tree.root_of(queue).order

    def _ran_s(self, job: Job) -> int:
        running_s = 0.0 if job.admitted_at is None else max(0.0, self._moment.read() - job.admitted_at)
        return job.ran_s + int(running_s)

    def _starves(self, job: Job) -> bool:
        ran_s = self._ran_s(job)
        return self._moment.is_past(job.submitted_at + ran_s + max(STARVES_AFTER_S, STARVES * ran_s))

    def _predicted_rest(self, job: Job) -> int:
        """GPU-seconds to come, as the number of its binary digits."""
        ran_s = self._ran_s(job)
        runtime_s = self._runtimes.median_s(job, longer_than_s=ran_s) or job.expected_runtime_s or 0
        rest_s = runtime_s - ran_s if runtime_s > ran_s else max(_UNKNOWN_S, ran_s)
        return (rest_s * asked_milli(job) // WHOLE).bit_length()


def why_before(other: Turn, turn: Turn) -> str:
    """Clause about the job of `other`: the rule that puts it before the job of `turn`, of the same queue."""
    rules = (rule for rule, one, two in zip(_RULES, other, turn, strict=True) if one != two)
    return next(rules, GAP) if other < turn else GAP


def asked_milli(job: Job) -> int:
    """Milli-GPU that the job asks for at least, as far as it says so itself: a share in MiB counts as a whole GPU."""
    share = job.gpu.compute_milli or job.gpu.memory_milli or WHOLE
    return job.workers_min * job.gpu.count * share
