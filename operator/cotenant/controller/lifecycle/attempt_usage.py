"""GPU time that a finished attempt used, and how much of it was lost. Pure.

Lost is the work since the last checkpoint, if an eviction or a fault ended the attempt. If its owner ended it
(suspended, deleted, `maxRuntime`, `idleTimeout`), nothing is lost. If every step was saved, nothing is lost either.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from cotenant.api.conversion.conditions import find_true
from cotenant.api.conversion.to_core import admitted_at, unix_seconds
from cotenant.api.resources.trainingjob_status import HeldStatus, TrainingJobStatus, UsageStatus
from cotenant.api.scalars.fields import moment
from cotenant.core.model.plan import EvictionKind


class Loss(StrEnum):
    """Why the work after an attempt's last checkpoint is lost."""

    NONE = "None"
    PREEMPTION = "Preemption"
    """Evicted in favour of other jobs, or for a better use of the cluster."""
    FAULT = "Fault"
    """A fault of a node, a GPU, the platform, or the program."""


_FOR_OTHERS: Final = frozenset(kind.value for kind in EvictionKind) - {EvictionKind.NODE_LOST.value}
_BY_ITS_OWNER: Final = frozenset({"Suspended"})


def charged(
    status: TrainingJobStatus, over_at: float, *, milli: int, gpu_class: str = "", loss: Loss = Loss.NONE
) -> UsageStatus:
    """The usage with this attempt added. `milli` is the milli-GPU of its placement, `loss` the cause of lost work."""
    if never_ran(status):
        milli = 0
    before = status.usage or UsageStatus()
    began = admitted_at(status)
    held = max(0.0, over_at - (began or over_at))
    amount = int(milli * held)
    exact = before.gpu_milliseconds + amount
    lost = 0 if loss is Loss.NONE or began is None else min(amount, int(milli * unsaved_s(status, began, over_at)))
    last = HeldStatus(
        gpu_class=gpu_class, milli=milli, since=moment(began or over_at), until=moment(max(over_at, began or over_at)),
        milli_gpu_seconds=amount,
    )  # fmt: skip
    return UsageStatus(
        gpu_seconds=exact // 1000,
        gpu_milliseconds=exact,
        lost_to_preemption_milliseconds=before.lost_to_preemption_milliseconds + lost * (loss is Loss.PREEMPTION),
        lost_to_faults_milliseconds=before.lost_to_faults_milliseconds + lost * (loss is Loss.FAULT),
        last_held=last if status.placement else before.last_held,
        run_seconds=before.run_seconds + int(ran_for(status, over_at)),
    )


def never_ran(status: TrainingJobStatus) -> bool:
    """True if no container of the attempt started. Nobody is charged then."""
    return status.blocked_start is not None and status.blocked_start.attempt == status.attempts


def loss_of_eviction(status: TrainingJobStatus) -> Loss:
    """Cause of lost work for an attempt that leaves now, by the kind of its eviction."""
    kind = status.eviction.kind if status.eviction else ""
    if kind in _FOR_OTHERS:
        return Loss.PREEMPTION
    return Loss.NONE if kind in _BY_ITS_OWNER else Loss.FAULT


def unsaved_s(status: TrainingJobStatus, began: float, over_at: float) -> float:
    """Seconds at the end of an attempt whose work is in no checkpoint.

    A checkpoint that was written on the way out, of which only the step is known, is assumed to hold all work.
    """
    progress = status.progress
    saved = progress.last_checkpoint if progress else None
    if progress is None or saved is None:
        return max(0.0, over_at - began)
    if saved.step is not None and saved.step >= progress.step > 0:
        return 0.0
    at = unix_seconds(saved.at) if saved.at else over_at
    return max(0.0, over_at - max(began, at or began))


def ran_for(status: TrainingJobStatus, now: float) -> float:
    """Seconds that the current attempt has run; 0 if none runs."""
    running = find_true(status.conditions, "Running")
    return 0.0 if running is None else max(0.0, now - running.last_transition_time.timestamp())
