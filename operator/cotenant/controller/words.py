"""Pure: what a job asks for and how it ended, in the few words of a table or a message."""

from __future__ import annotations

from cotenant.api.jobstatus import ExitStatus
from cotenant.api.quantities import show_decimal, show_memory
from cotenant.api.trainingjobs import TrainingJobSpec


def asks(spec: TrainingJobSpec) -> str:
    """`2 × 0.4`, `4`, `2 × 16Gi`: what a job asks of GPUs, for a table."""
    gpu = spec.gpu
    if gpu.memory_fraction is not None:
        each = show_decimal(gpu.memory_fraction)
    elif gpu.memory is not None:
        each = show_memory(gpu.memory)
    else:
        each = str(gpu.count or 1)
    return each if spec.workers == 1 else f"{spec.workers} × {each}"


def exit_message(exit_status: ExitStatus) -> str:
    who = f"rank {exit_status.rank}" if exit_status.rank is not None else "the job"
    node = f" on node {exit_status.node}" if exit_status.node else ""
    how = f"{who}{node} ended with {exit_status.code} ({exit_status.reason})"
    return f"{how}: {exit_status.message}" if exit_status.message else how
