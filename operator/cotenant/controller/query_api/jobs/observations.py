"""What an Explanation tells of a job besides the decision: its roles, how long it did not run, what its attempt and its
GPUs do now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.contract import Role
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.attempt_usage import ran_for
from cotenant.controller.query_api.documents import Document, filled
from cotenant.controller.reports.use_watch import use_by_job
from cotenant.decision_log.measured_use import NOTHING_MEASURED, MeasuredUse


def use_now(records: Iterable[JobRecord], nodes: Mapping[str, GPUNode]) -> Mapping[str, MeasuredUse]:
    """Uid of a job → its use in the newest reports of the nodes that it holds GPUs of."""
    held = {part.node for one in records if one.placement is not None for part in one.placement.nodes}
    return use_by_job(nodes[name].status for name in held if name in nodes)


def observed(record: JobRecord, use: Mapping[str, MeasuredUse], now: float) -> Document:
    """Fields of the status of an Explanation, without unknown ones."""
    if record.job is None:
        return {}
    status, evaluator = record.status, record.status.evaluator
    submitted = unix_seconds(record.job.metadata.creation_timestamp)
    ran = (status.usage.run_seconds if status.usage else 0) + ran_for(status, now)
    held, limit = record.placement is not None, record.job.spec.max_runtime
    found = {
        "roles": roles_of(record),
        "evaluator": evaluator.state if evaluator and held else "",
        "ranSeconds": int(ran) or None,
        "waitedSeconds": None if submitted is None else max(0, int(now - submitted - ran)),
        "leftSeconds": max(0, int(limit - ran)) if held and limit is not None else None,
        "use": _use(use.get(record.uid, NOTHING_MEASURED)) if held else {},
        "attempt": _attempt(record) if held else {},
    }
    return filled(found)


def _attempt(record: JobRecord) -> dict[str, str]:
    """What the attempt that holds GPUs does now: for one that does not start, why."""
    status = record.status
    return filled({"phase": record.phase.value, "reason": status.reason, "message": status.message})


def roles_of(record: JobRecord) -> dict[str, int]:
    """Role → how many of it run, or are asked for. Ranks of an elastic job that waits are its most."""
    if record.job is None:
        return {}
    spec = record.job.spec
    placed = sum(len(part.ranks) for part in record.placement.nodes) if record.placement is not None else 0
    ranks, chief = placed or spec.workers, int(spec.chief is not None)
    servers = spec.runtime.servers.servers if spec.runtime.servers is not None else 0
    counts = {
        Role.CHIEF: chief,
        Role.WORKER: ranks - chief,
        Role.PARAMETER_SERVER: servers,
        Role.EVALUATOR: int(spec.evaluator is not None),
    }
    return {role.value: count for role, count in counts.items() if count}


def _use(use: MeasuredUse) -> dict[str, Any]:
    if not use.samples or use.simulated:
        return {}
    measured = {"measuredGPUs": use.busy_samples, "idleGPUs": use.idle_samples} if use.busy_samples else {}
    return measured | {"memoryPeakMiB": use.memory_peak_mib, "memoryHeldMiB": use.held_mib}
