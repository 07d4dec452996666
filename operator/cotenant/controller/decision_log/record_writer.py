"""Makes records of decisions, ends of runs and samples of GPUs, and appends them to the archive. It runs in a thread of
the recorder's, one batch at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cotenant.api.resources.gpunodes import GPUNodeStatus
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.controller.decision_log.archive import Archive
from cotenant.controller.decision_log.past_capsules import PastCapsules
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.objects import Placement
from cotenant.core.model.plan import Action, Admit, Evict, Plan
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.decision_log.cycles import CycleHistory, ReasonGiven
from cotenant.decision_log.lines import Record
from cotenant.decision_log.measured_use import UseByJob
from cotenant.decision_log.runs import run_of
from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.timelines import Happening, Timelines
from cotenant.query.redaction import mentioned


@dataclass(frozen=True, slots=True)
class Decided:
    snapshot: Snapshot
    """Without its accounting."""
    plan: Plan
    carried_out: tuple[Action, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class PhaseSeen:
    uid: str
    happening: Happening


@dataclass(frozen=True, slots=True)
class RunEnded:
    job: TrainingJob
    deleted_at: str = ""
    """Empty: it has finished."""
    held_ms: int | None = None
    """Of one that held GPUs when its document went: what it held by then, over all attempts."""


@dataclass(frozen=True, slots=True)
class GpusSeen:
    nodes: tuple[GPUNodeStatus, ...]


Item: TypeAlias = Decided | PhaseSeen | RunEnded | GpusSeen


@dataclass(slots=True, kw_only=True)
class RecordWriter:
    archive: Archive
    capsules: PastCapsules
    metrics: Metrics
    timelines: Timelines = field(default_factory=Timelines)
    use: UseByJob = field(default_factory=UseByJob)
    _history: CycleHistory = field(default_factory=CycleHistory)

    def forget(self) -> None:
        """Forget everything: another replica leads, and what it records is not known here."""
        self.timelines.clear()
        self.use.clear()
        self.capsules.clear()
        self._history = CycleHistory()

    def note_admitted(self, uid: str, placement: Placement, at: float, classes: Mapping[str, str]) -> None:
        """Note a placement that an earlier leader gave. `classes`: GPU UUID → class."""
        happening, gpu_class = _placed("Admitted", placement, at, classes)
        self.timelines.note(uid, happening, gpu_class=gpu_class)

    def write(self, items: Sequence[Item], charges: Sequence[UsageCharge], namespaces: frozenset[str]) -> None:
        """Append the charges, then the records that follow from the items. `namespaces`: those that a message may
        mention.
        """
        failed = self.archive.failed + self.capsules.failed
        self.archive.add(charges)
        records: list[Record] = []
        ended: set[str] = set()
        for item in items:
            if isinstance(item, Decided):
                record, given = self._history.record(item.snapshot, item.plan, item.carried_out, item.seconds)
                records.append(record)
                self._note_decision(item, given, namespaces)
                if not record.same:
                    self.capsules.take(record.digest, item.snapshot, item.plan)
            elif isinstance(item, PhaseSeen):
                self.timelines.note(item.uid, _mentioning(item.happening, namespaces))
            elif isinstance(item, GpusSeen):
                self.use.sample(item.nodes)
            elif (uid := item.job.metadata.uid) not in ended and not self.archive.knows(uid):
                ended.add(uid)
                timeline, use = self.timelines.pop(uid), self.use.pop(uid)
                records.append(
                    run_of(item.job, deleted_at=item.deleted_at, held_ms=item.held_ms, timeline=timeline, use=use)
                )
        self.archive.add(records)
        self.metrics.decision_log_records.inc(len(records))
        self.metrics.decision_log_failures.inc(self.archive.failed + self.capsules.failed - failed)

    def _note_decision(self, decided: Decided, given: Sequence[ReasonGiven], namespaces: frozenset[str]) -> None:
        """Note what a decision means for each job."""
        if not given and not decided.carried_out:
            return
        at = decided.snapshot.now
        jobs = {job.key: job for job in decided.snapshot.jobs}
        for one in given:
            if (job := jobs.get(one.job)) is not None:
                waits = Happening(at=at, what="Waits", reason=one.reason, message=one.message)
                self.timelines.note(job.uid, _mentioning(waits, namespaces))
        classes = {gpu.uuid: gpu.gpu_class for node in decided.snapshot.nodes for gpu in node.gpus}
        for action in decided.carried_out:
            if (job := jobs.get(action.job)) is not None:
                happening, gpu_class = _of_action(action, at, classes)
                self.timelines.note(job.uid, _mentioning(happening, namespaces), gpu_class=gpu_class)


def _of_action(action: Action, at: float, classes: dict[str, str]) -> tuple[Happening, str]:
    """Report of an action, with the class of the GPUs that it gives."""
    if isinstance(action, Evict):
        favoured = f" for {action.in_favour_of}" if action.in_favour_of else ""
        return Happening(at=at, what="Evicted", reason=action.kind.value, message=f"{action.message}{favoured}"), ""
    return _placed("Admitted" if isinstance(action, Admit) else "Resized", action.placement, at, classes)


def _placed(what: str, placement: Placement, at: float, classes: Mapping[str, str]) -> tuple[Happening, str]:
    """Report of a placement, and the class of its GPUs, which is one."""
    first = placement.nodes[0].ranks[0].gpus
    gpu_class = classes.get(first[0].uuid, "") if first else ""
    on = ", ".join(f"{node} ({workers})" for node, workers in placement.workers_on)
    return Happening(at=at, what=what, message=f"workers on {on}" + (f": {gpu_class}" if gpu_class else "")), gpu_class


def _mentioning(happening: Happening, namespaces: frozenset[str]) -> Happening:
    return replace(happening, mentions=tuple(sorted(mentioned(happening.message, namespaces))))
