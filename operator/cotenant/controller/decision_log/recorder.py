"""Records decisions, ends of runs and samples of GPUs in a thread. The caller never waits: if the thread does not keep
up, items are dropped and counted.

Followers record nothing. A new leader reads what is on the volume, and records all runs that have ended meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final

from cotenant import __version__
from cotenant.api.conversion.to_core import admitted_at
from cotenant.api.scalars.fields import moment, show_time
from cotenant.controller.decision_log.archive import Archive
from cotenant.controller.decision_log.charge_counters import count_charges
from cotenant.controller.decision_log.past_capsules import PastCapsules
from cotenant.controller.decision_log.record_writer import (
    Decided,
    GpusSeen,
    Item,
    PhaseSeen,
    RecordWriter,
    RunEnded,
)
from cotenant.controller.decision_log.showback_ledger import ShowbackLedger
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.informers.tombstones import Tombstones
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.lifecycle.attempt_usage import ran_for
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Action, Plan
from cotenant.core.policy import Policy
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.decision_log.capsule import Capsule
from cotenant.decision_log.runs import RunRecord, has_ended, run_of
from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.showback.prices import PriceList
from cotenant.decision_log.timelines import Happening

log = logging.getLogger(__name__)

QUEUE_MAX: Final = 4_096
DECISIONS_MAX: Final = 64
"""Of those that wait: each keeps a snapshot alive."""
SAMPLE_S: Final = 15.0
CHARGE_S: Final = 5.0
PAUSE_S: Final = 0.5
"""Between two batches."""
_SHOWN: Final = frozenset({Phase.RUNNING, Phase.SUSPENDED, Phase.SUCCEEDED, Phase.FAILED, Phase.INVALID})
"""Phases that are happenings of their own: admissions and evictions are known from the plan."""


@dataclass(slots=True, kw_only=True)
class DecisionRecorder:
    cache: ObjectCache
    metrics: Metrics
    policy: Policy
    prices: PriceList
    archive: Archive
    showback: ShowbackLedger
    capsules: PastCapsules
    leadership: Leadership
    clock: Callable[[], float]
    _items: deque[Item] = field(default_factory=deque)
    _decisions: int = 0
    """Of those that wait."""
    _phases: dict[str, Phase] = field(default_factory=dict)
    """uid → phase that was seen last."""
    _deleted: Tombstones = field(default_factory=Tombstones)
    """Deleted jobs that a late event may still name, or that exist again after a restore of etcd."""
    _charges: list[UsageCharge] = field(default_factory=list)
    """That are made and not written: these are never dropped."""
    _writer: RecordWriter = field(init=False)
    _last: Decided | None = None
    """With the snapshot that the plan was made of: it is kept while it holds."""
    _fresh: bool = True
    """This replica has not recorded anything since it leads."""

    def __post_init__(self) -> None:
        self._writer = RecordWriter(archive=self.archive, capsules=self.capsules, metrics=self.metrics)
        self.leadership.on_lost(self.forget)

    # -- what is handed on, in the loop's thread -----------------------------------------------------------------------

    def on_decision(self, snapshot: Snapshot, plan: Plan, carried_out: Collection[Action], seconds: float) -> None:
        decided = Decided(replace(snapshot, accounting=None), plan, tuple(carried_out), seconds)
        if self._last is None or self._last.plan is not plan:
            self._last = decided
        if self._decisions >= DECISIONS_MAX:
            self.metrics.decision_log_dropped.labels("Decided").inc()
            return
        self._decisions += 1
        self._offer(decided)

    def on_job(self, record: JobRecord, *, deleted: bool = False) -> None:
        """Take a TrainingJob as it was observed."""
        if deleted and (oldest := self._deleted.add(record.uid)) is not None:
            self.archive.forget(oldest)
            self.showback.ledger.forget([oldest])
        if not self.leadership.held or record.job is None:
            return
        phase = record.phase
        if deleted:
            self._phases.pop(record.uid, None)
            held = self.showback.on_deleted(record, self.clock(), self._writer.use[record.uid])
            if record.status.attempts:
                self._offer(RunEnded(record.job, show_time(moment(self.clock())), held))
            return
        if self._phases.get(record.uid) is phase:
            return
        self._phases[record.uid] = phase
        if phase in _SHOWN:
            reason, message = record.status.reason or "", record.status.message or ""
            self._offer(
                PhaseSeen(record.uid, Happening(at=self.clock(), what=phase.value, reason=reason, message=message))
            )
        if has_ended(record.status):
            self._offer(RunEnded(record.job))

    def _offer(self, item: Item) -> None:
        if len(self._items) >= QUEUE_MAX:
            self.metrics.decision_log_dropped.labels(type(item).__name__).inc()
            if isinstance(item, Decided):
                self._decisions -= 1
            return
        self._items.append(item)

    def forget(self) -> None:
        """Forget everything: another replica leads, and what it records is not known here."""
        self._items.clear()
        self._decisions = 0
        self._charges.clear()
        self._phases.clear()
        self._writer.forget()
        self._last, self._fresh = None, True

    # -- questions -----------------------------------------------------------------------------------------------------

    def run(self, key: JobKey, now: float | None = None) -> RunRecord | None:
        """The newest run of this name, of the present job or of the last one. With `now`, GPU time until then counts;
        without it, only finished attempts.
        """
        there = self.cache.jobs.get(key)
        if there is not None and there.job is not None and not self.archive.knows(there.uid):
            held_ms, ran_s = None, 0
            if now is not None:
                held_ms, ran_s = self.showback.held_by(there, now), int(ran_for(there.status, now))
            timeline, use = self._writer.timelines[there.uid], self._writer.use[there.uid]
            return run_of(there.job, held_ms=held_ms, ran_s=ran_s, timeline=timeline, use=use)
        namespace, _, name = key.partition("/")
        found = self.archive.runs(namespace, name, most=1)
        return found[0] if found else None

    def unrecorded_charges(self, namespace: str = "") -> list[UsageCharge]:
        """Charges of a namespace, or of all, that the archive does not have yet, including what is held now as if it
        ended now.
        """
        waiting = [*self._charges, *self.showback.going_on(self.clock(), self._writer.use.__getitem__)]
        return [one for one in waiting if namespace in ("", one.namespace)]

    def capsule(self) -> Capsule | None:
        """Capsule of the decision that holds now."""
        last = self._last
        return None if last is None else Capsule.of(last.snapshot, self.policy, last.plan, __version__)

    # -- the thread ----------------------------------------------------------------------------------------------------

    async def record(self) -> None:
        """Record until the task is cancelled. A failure loses only what was being recorded."""
        sampled_at = charged_at = 0.0
        while True:
            await asyncio.sleep(PAUSE_S)
            if not self.leadership.held:
                continue
            if self._fresh:
                await self._begin()
            now = self.clock()
            if now - sampled_at >= SAMPLE_S:
                sampled_at = now
                self._offer(GpusSeen(tuple(node.status for node in self.cache.nodes.gpu_nodes.values())))
            if not 0 <= now - charged_at < CHARGE_S:
                charged_at = now
                self.charge()
            await self.drain()

    def charge(self) -> None:
        """Charge what has come to an end."""
        made = self.showback.charges(self.clock(), self._writer.use.__getitem__)
        self._charges += made
        count_charges(self.metrics, made, self.prices, set(self.cache.queues))

    async def _begin(self) -> None:
        self._fresh = False
        await asyncio.to_thread(self.archive.load)
        await asyncio.to_thread(self.capsules.load)
        self.showback.restore(await asyncio.to_thread(self.archive.charges))
        nodes = self.cache.nodes.gpu_nodes.values()
        classes = {gpu.uuid: gpu.gpu_class for node in nodes for gpu in node.status.gpus}
        for record in list(self.cache.jobs.values()):
            if (placement := record.placement) is not None and record.status.placement is not None:
                at = admitted_at(record.status) or self.clock()
                self._writer.note_admitted(record.uid, placement, at, classes)
            self.on_job(record)

    async def drain(self) -> None:
        """Record everything that is queued."""
        items = [self._items.popleft() for _ in range(len(self._items))]
        charges = list(self._charges)
        self._decisions = 0
        if not items and not charges:
            return
        namespaces = frozenset(self.cache.namespaces)
        try:
            await asyncio.to_thread(self._writer.write, items, charges, namespaces)
        except Exception:
            self.metrics.failures_contained.labels("DecisionLogFailed").inc()
            log.exception("%d entries of the decision log are lost", len(items))
        finally:
            del self._charges[: len(charges)]  # the archive has them
