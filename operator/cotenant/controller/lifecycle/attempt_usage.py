"""What an attempt that is over has cost, and what of that it lost. Pure.

Lost is the work since its last checkpoint, if somebody else's turn or a fault took it. An attempt that its owner ended
(suspended, deleted, at `maxRuntime` or `idleTimeout`) lost nothing to either, and one that saved every step that it
made lost nothing at all.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import HeldStatus, TrainingJobStatus, UsageStatus
from cotenant.api.scalars.fields import moment
from cotenant.core.model.plan import EvictionKind


class Loss(StrEnum):
    """Cause to which the work of an attempt after its last checkpoint is lost."""

    NONE = "None"
    PREEMPTION = "Preemption"
    """Evicted so that others, or the whole, get on."""
    FAULT = "Fault"
    """Of a node, a GPU, the platform, or the program itself."""


_FOR_OTHERS: Final = frozenset(kind.value for kind in EvictionKind) - {EvictionKind.NODE_LOST.value}
_BY_ITS_OWNER: Final = frozenset({"Suspended"})


def charged(
    status: TrainingJobStatus, over_at: float, *, milli: int, gpu_class: str = "", loss: Loss = Loss.NONE
) -> UsageStatus:
    """Usage with the attempt that was over then; `milli` is what its placement holds, in milli-GPU. `loss`: to what its
    work after the last checkpoint was lost.
    """
    if never_ran(status):
        milli = 0
    before = status.usage or UsageStatus()
    began = unix_seconds(status.placement.admitted_at) if status.placement else None
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
    """No container of the current attempt started: it is charged to nobody."""
    return status.blocked_start is not None and status.blocked_start.attempt == status.attempts


def loss_of_eviction(status: TrainingJobStatus) -> Loss:
    """Loss of the attempt that leaves now, by the kind of its eviction."""
    kind = status.eviction.kind if status.eviction else ""
    if kind in _FOR_OTHERS:
        return Loss.PREEMPTION
    return Loss.NONE if kind in _BY_ITS_OWNER else Loss.FAULT


def unsaved_s(status: TrainingJobStatus, began: float, over_at: float) -> float:
    """Seconds at the end of an attempt of which no checkpoint has the work.

    A checkpoint as it left, of which the step alone is known, is taken to have all that was worth saving.
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
    """Seconds that the running attempt has run; 0 when none runs."""
    for condition in status.conditions:
        if condition.type == "Running" and condition.status == "True":
            return max(0.0, now - (unix_seconds(condition.last_transition_time) or now))
    return 0.0
