"""The sentence for a job that is admitted: where it runs, and what its tenant has to know. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.api.resources.gpunodes import GPUNode
from cotenant.api.scalars.fields import moment, show_time
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.pod_deletion import effective_grace_s
from cotenant.controller.reports.slow_gpus import slow_gpu_notice
from cotenant.controller.settings import Settings
from cotenant.core.model.formatting import counted, format_duration
from cotenant.core.model.plan import Admit


def admission_message(record: JobRecord, action: Admit, gpu_nodes: Mapping[str, GPUNode], settings: Settings) -> str:
    placement = action.placement
    workers, nodes = placement.workers, [node.node for node in placement.nodes]
    where = ", ".join(nodes) if len(nodes) <= 4 else f"{', '.join(nodes[:3])} and {len(nodes) - 3} more nodes"
    notices = slow_gpu_notice(placement, gpu_nodes) + _backfilled(action) + _cut_grace(record, settings)
    return f"admitted: {counted(workers, 'worker')} on {where}{notices}"


def _backfilled(action: Admit) -> str:
    if action.backfilled_until is None:
        return ""
    until = show_time(moment(action.backfilled_until))
    return f"; its GPUs are kept for another job: if it has not ended by {until}, as it said, it may have to leave"


def _cut_grace(record: JobRecord, settings: Settings) -> str:
    """Notice that the job gets a shorter grace period than it asked for; empty if it gets all of it."""
    asked = record.job.spec.grace_period if record.job else 0
    effective = effective_grace_s(asked, settings)
    if effective == asked:
        return ""
    cut = f"its gracePeriod of {format_duration(asked)} is cut to {format_duration(effective)}"
    return f"; {cut}, the most in this cluster"
