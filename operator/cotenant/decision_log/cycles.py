"""Records of scheduling cycles: a digest of the inputs, the actions, and the reasons that changed.

Few of thousands of waiting jobs change between two cycles. So a record has the verdicts that are new or have another
reason, and the number of jobs for each reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Action, Admit, Evict, Plan, Reason
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.decision_log.digest import SnapshotDigests

VERDICTS_MAX: Final = 1_000
"""Verdicts in one record. Further ones are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTaken:
    action: str
    """`Admit`, `Evict` or `Resize`."""
    job: JobKey
    carried_out: bool = True
    """False if the object had changed since the decision."""
    kind: str = ""
    """Cause of an eviction."""
    in_favour_of: JobKey = ""
    nodes: tuple[tuple[str, int], ...] = ()
    """(node, workers)."""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonGiven:
    """A job waits for another reason than before, or began to wait."""

    job: JobKey
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRecord:
    at: float
    """Unix seconds."""
    digest: str
    """Digest of the snapshot. Equal digests lead to equal decisions."""
    same: bool = False
    """True if the decision before still held: nothing to do, and no reason changed."""
    seconds: float = 0.0
    nodes: int = 0
    jobs: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Reason → number of jobs that wait for it."""
    actions: tuple[ActionTaken, ...] = ()
    verdicts: tuple[ReasonGiven, ...] = ()
    verdicts_more: int = 0


class CycleHistory:
    """Turns successive decisions into records."""

    def __init__(self) -> None:
        self._digests = SnapshotDigests()
        self._reasons: dict[JobKey, Reason] = {}
        self._plan: Plan | None = None
        self._counts: dict[str, int] = {}

    def record(
        self, snapshot: Snapshot, plan: Plan, carried_out: Collection[Action], seconds: float
    ) -> tuple[CycleRecord, tuple[ReasonGiven, ...]]:
        """The record, and all new reasons, including those for which the record has no room."""
        same = plan is self._plan
        given = () if same else tuple(self._given(plan))
        record = CycleRecord(
            at=snapshot.now,
            digest=self._digests.of(snapshot),
            same=same,
            seconds=round(seconds, 6),
            nodes=len(snapshot.nodes),
            jobs=len(snapshot.jobs),
            reasons=self._counts,
            actions=() if same else _all_taken(plan, carried_out),
            verdicts=given[:VERDICTS_MAX],
            verdicts_more=max(0, len(given) - VERDICTS_MAX),
        )
        return record, given

    def _given(self, plan: Plan) -> list[ReasonGiven]:
        """New reasons, in the order of the jobs. They count as known from now on."""
        before = self._reasons
        changed = sorted(key for key, one in plan.verdicts.items() if before.get(key) is not one.reason)
        self._plan, self._reasons = plan, {key: one.reason for key, one in plan.verdicts.items()}
        self._counts = {reason.value: number for reason, number in Counter(self._reasons.values()).items()}
        found = (plan.verdicts[key] for key in changed)
        return [ReasonGiven(job=one.job, reason=one.reason.value, message=one.message) for one in found]


def _all_taken(plan: Plan, carried_out: Collection[Action]) -> tuple[ActionTaken, ...]:
    done = {id(action) for action in carried_out}
    return tuple(_taken(action, id(action) in done) for action in plan.actions)


def _taken(action: Action, carried_out: bool) -> ActionTaken:
    if isinstance(action, Evict):
        return ActionTaken(
            action="Evict", job=action.job, carried_out=carried_out, kind=action.kind.value,
            in_favour_of=action.in_favour_of or "", message=action.message,
        )  # fmt: skip
    return ActionTaken(
        action="Admit" if isinstance(action, Admit) else "Resize",
        job=action.job,
        carried_out=carried_out,
        nodes=action.placement.workers_on,
        message="" if isinstance(action, Admit) else action.message,
    )
