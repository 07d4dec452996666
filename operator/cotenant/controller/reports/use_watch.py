"""Watches how running jobs use their GPUs, and reports jobs that use little of what they hold.

Each look takes the newest report of every agent, and each heartbeat once. Findings are in the jobs' statuses and
survive a change of leader. The last minutes are only in memory, so a new leader waits until it has seen as many.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.gpunodes import GPUNodeStatus
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories, JobMemory, MeasuredPeak, ProgressSample, UseFinding
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.attempt_usage import ran_for
from cotenant.controller.lifecycle.policies.idle_timeout import IMPORT_S
from cotenant.controller.lifecycle.policies.low_use import said_of
from cotenant.core.model.lifecycle import Phase
from cotenant.decision_log.efficiency import needed_mib
from cotenant.decision_log.low_use import Holding, judged, sentences
from cotenant.decision_log.measured_use import NOTHING_MEASURED, MeasuredUse, use_on
from cotenant.decision_log.use_window import SLOT_S, SLOTS, UseWindow, looked

EVERY_S: Final = 15.0
SLOW_STEPS: Final = 3
"""A slow program may miss this many steps before it counts as making none."""
MINUTES: Final = int(SLOTS * SLOT_S) // 60


@dataclass(slots=True)
class UseWatch:
    cache: ObjectCache
    memories: JobMemories
    _: KW_ONLY
    clock: Callable[[], float] = time.time
    _heartbeats: dict[str, float] = field(default_factory=dict)
    """Node → Unix seconds of the last heartbeat that was looked at."""

    async def look(self) -> None:
        """Take in new reports of all nodes, and judge every running job."""
        now, nodes = self.clock(), self.cache.nodes.gpu_nodes
        beats = {name: unix_seconds(node.status.heartbeat) or 0.0 for name, node in nodes.items()}
        new = [nodes[name].status for name, at in beats.items() if at != self._heartbeats.get(name)]
        self._heartbeats = beats
        seen = await asyncio.to_thread(use_by_job, new)
        for record in list(self.cache.jobs.values()):
            memory = self.memories[record.id]
            if record.phase is not Phase.RUNNING or record.placement is None or record.job is None:
                memory.use = memory.use_finding = memory.peak = None
            elif (use := seen.get(record.uid)) is not None:
                self._take(record, memory, use, now)

    def _take(self, record: JobRecord, memory: JobMemory, use: MeasuredUse, now: float) -> None:
        sample, attempt = memory.progress_of(record.status.attempts), record.status.attempts
        if sample is not None and sample.progress.busy is not None:
            return  # a session: a person works in it, and its own conditions say when it is idle
        same = memory.use is not None and memory.use.attempt == attempt
        begun = (sample is not None and sample.progress.step > 0) or use.idle_samples < use.busy_samples
        if not same and not begun and ran_for(record.status, now) < IMPORT_S:
            return
        window = memory.use = looked(memory.use, attempt, use, now)
        if window.is_full or memory.peak is not None or record.status.suggestion is not None:
            self._note_peak(record, memory, window)
        if not window.is_full:
            return
        holding, total = holding_of(record, makes_steps=makes_steps(sample, now)), window.use
        said = said_of(record.status)
        kind = judged(total, holding, said)
        if kind is said:
            memory.use_finding = None
            return
        gone = f"What was seen in the last {MINUTES} minutes does not show it any more."
        message = sentences(kind, total, holding, MINUTES) if kind else gone
        memory.use, memory.use_finding = window.emptied(now), UseFinding(attempt, kind, message)
        self.cache.mark_changed([record.id])

    def _note_peak(self, record: JobRecord, memory: JobMemory, window: UseWindow) -> None:
        memory.peak = needs_more(record, window)
        if memory.peak is not None:
            self.cache.mark_changed([record.id])


def needs_more(record: JobRecord, window: UseWindow) -> MeasuredPeak | None:
    """The measured peak of a share, if its status has a lower one or none."""
    gpu = record.job.spec.gpu_given if record.job else None
    if gpu is None or not gpu.is_share or not window.memory_peak_mib:
        return None
    needed, known = needed_mib(window.memory_peak_mib), record.status.suggestion
    if known is not None and known.memory_mib >= needed:
        return None
    return MeasuredPeak(window.attempt, window.memory_peak_mib, needed)


def use_by_job(nodes: Iterable[GPUNodeStatus]) -> Mapping[str, MeasuredUse]:
    """Use in one look, by uid of the job. Simulated GPUs compute nothing and are left out."""
    found: dict[str, MeasuredUse] = {}
    for node in nodes:
        for uid, use in () if node.simulated else use_on(node):
            found[uid] = found.get(uid, NOTHING_MEASURED).plus(use)
    return found


def makes_steps(sample: ProgressSample | None, now: float) -> bool:
    """True if a step was made within the window, or within the time of some steps if steps take longer."""
    if sample is None or sample.progress.step <= 0:
        return False
    rate = sample.progress.rate
    return now - sample.step_changed_at < max(SLOTS * SLOT_S, SLOW_STEPS / rate if rate > 0 else 0.0)


def holding_of(record: JobRecord, *, makes_steps: bool) -> Holding:
    """The GPUs that a job with a placement holds."""
    nodes = record.placement.nodes if record.placement else ()
    spec = record.job.spec if record.job else None
    return Holding(
        gpus=len(frozenset[str]().union(*(node.uuids for node in nodes))),
        is_share=spec is not None and spec.gpu_given is not None and spec.gpu_given.is_share,
        cpu_milli=spec.resources.cpu if spec is not None else 1000,
        makes_steps=makes_steps,
    )
