"""Pure: what a job asks for and how it ended, in the few words of a table or a message."""

from __future__ import annotations

from cotenant.api.resources.trainingjob_status import ExitStatus
from cotenant.api.resources.trainingjobs import TrainingJobSpec
from cotenant.api.scalars.quantities import show_decimal, show_memory


def gpu_request(spec: TrainingJobSpec) -> str:
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
    """A worker's own sentence names the rank; where that was is added. Without such a sentence: the code."""
    at = [f"pod {exit_status.pod}"] if exit_status.pod else []
    at += [f"on node {exit_status.node}"] if exit_status.node else []
    where, rank = f" ({' '.join(at)})" if at else "", f"rank {exit_status.rank}"
    said, found, rest = exit_status.message.partition(rank)
    if found and exit_status.rank is not None and not rest[:1].isdigit():
        return f"{said}{rank}{where}{rest}"
    if exit_status.pod and exit_status.pod in exit_status.message:
        return exit_status.message
    who = rank if exit_status.rank is not None else "the job"
    how = f"{who}{where} ended with {exit_status.code} ({exit_status.reason})"
    return f"{how}: {exit_status.message}" if exit_status.message else how
