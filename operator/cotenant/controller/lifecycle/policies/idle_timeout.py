"""`spec.idleTimeout`: a job that makes no step and keeps no GPU busy for this long is ended. Pure.

Before its first step or its first use of a GPU, it gets `IMPORT_S` more, for imports and for reading data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cotenant.api.resources.gpunodes import GPUNode
from cotenant.controller.informers.job_memory import Activity, JobMemory
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle import staged_data
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.termination import Finish
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from cotenant.core.model.objects import Placement

IMPORT_S: Final = 600.0
"""Before its first step or kernel, a job imports and reads its data. It does not count as idle for this time."""


def activity_of(record: JobRecord, memory: JobMemory, gpu_nodes: Mapping[str, GPUNode], now: float) -> Activity | None:
    """Last step or GPU activity of the job that this leader has seen; None without an idle timeout."""
    if record.job is None or record.job.spec.idle_timeout is None or record.phase is not Phase.RUNNING:
        return None
    attempt, before = record.status.attempts, memory.activity
    same_attempt = before is None or before.attempt == attempt
    known = before if same_attempt else None
    busy, sample = any_gpu_busy(record.placement, gpu_nodes), memory.progress_of(attempt)
    begun = busy or (known is not None and known.begun) or (sample is not None and sample.progress.step > 0)
    staging = sample is not None and sample.progress.state == staged_data.STATE
    at = now if known is None or busy or staging else known.at
    return Activity(attempt, at if sample is None else max(at, sample.step_changed_at), begun)


def deadline(o: Observation, settings: Settings) -> float | None:
    if o.spec is None or o.spec.idle_timeout is None or o.idle_since is None or o.phase is not Phase.RUNNING:
        return None
    return o.idle_since + o.spec.idle_timeout + (0.0 if o.begun else IMPORT_S)


def ending(o: Observation, settings: Settings) -> Finish | None:
    over_at = deadline(o, settings)
    if over_at is None or o.now < over_at or o.spec is None:
        return None
    beside = "" if o.begun else f", and {IMPORT_S:.0f} s more for imports before the first step"
    message = f"no step was made and no GPU was busy for {o.spec.idle_timeout} s (spec.idleTimeout){beside}"
    return Finish(event=LifecycleEvent.DEADLINE, reason="IdleTimeout", message=message)


def any_gpu_busy(placement: Placement | None, gpu_nodes: Mapping[str, GPUNode]) -> bool:
    """True if a GPU of this placement computes, by its agent's last report. Of a shared GPU, any job's work counts."""
    for node in placement.nodes if placement else ():
        held, seen = node.uuids, gpu_nodes.get(node.node)
        for gpu in seen.status.gpus if seen else ():
            if gpu.uuid in held and gpu.used and gpu.used.utilization_percent:
                return True
    return False
