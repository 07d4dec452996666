"""Status of a Queue, written by the controller: what its jobs hold, borrow and have used up."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.amounts import GpuAmount
from cotenant.api.scalars.fields import Timestamp, keyed_by
from cotenant.api.validation.rules import StatusModel


class QuotaUsage(StatusModel):
    gpu_class: str | None = None
    zone: str | None = None
    guaranteed: GpuAmount = 0
    effective: GpuAmount = 0
    """`guaranteed`, scaled to the nodes that are there."""
    used: GpuAmount = 0
    """Held by its jobs."""
    borrowed: GpuAmount = 0
    """Of these, beyond what is guaranteed."""
    lent: GpuAmount = 0
    """Of what is guaranteed, held by others."""
    memory_used: str | None = None
    """GPU memory that its jobs hold; where the line limits it."""
    memory_limit: str | None = None
    """The most that they may hold."""


class BudgetUsage(StatusModel):
    spent_milli_gpu_seconds: int = Field(default=0, alias="spentMilliGPUSeconds")
    """Exactly, in this period."""
    spent: str = ""
    """In GPU-hours, for people."""
    left: str = ""
    """In GPU-hours, for people."""
    period_start: Timestamp | None = None
    period_end: Timestamp | None = None


class PastBorrowing(StatusModel):
    milli_gpu_seconds: int = Field(default=0, alias="milliGPUSeconds")
    """Milli-GPU × seconds beyond what is guaranteed, decayed."""
    at: Timestamp
    """When it stood at that."""
    half_life_seconds: int | None = None
    """With which it decayed."""


class QueueStatus(StatusModel):
    used: GpuAmount = 0
    """GPUs that its jobs hold."""
    borrowed: GpuAmount = 0
    """Of these, beyond what is guaranteed to it."""
    lent: GpuAmount = 0
    """Of what is guaranteed to it, held by other queues."""
    pending: int = 0
    """Jobs that wait."""
    running: int = 0
    """Jobs that hold GPUs."""
    share: str = ""
    """Dominant share of what is borrowed now: who has less goes first. What was borrowed before counts besides."""
    namespaces: tuple[str, ...] = ()
    """All that it serves now, selectors resolved."""
    quotas: tuple[QuotaUsage, ...] = ()
    """The same for every line of the spec."""
    budget: BudgetUsage | None = None
    past_borrowing: PastBorrowing | None = None
    """What it has borrowed before, from which the next leader goes on. Written when something else is."""
    conditions: Annotated[tuple[Condition, ...], *keyed_by("type")] = ()
    observed_generation: int = 0
