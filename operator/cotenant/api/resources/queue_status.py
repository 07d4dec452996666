"""Status of a Queue, written by the controller: what its jobs hold, borrow and have used up; and what a namespace
that it serves may see of that.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cotenant.api.resources.object_meta import ObjectMeta
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.amounts import GpuAmount
from cotenant.api.scalars.fields import Timestamp, keyed_by
from cotenant.api.validation.rules import Model, Rule, StatusModel


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


class LocalQuota(StatusModel):
    """One line of the queue's quota, as a namespace sees it."""

    gpu_class: str | None = None
    """Absent: of any class."""
    zone: str | None = None
    """Absent: in any zone."""
    guaranteed: GpuAmount = 0
    limit: GpuAmount | None = None
    """The most that the queue may hold, what it borrows included. Absent: what others lend."""
    used: GpuAmount = 0
    """Held by the queue's jobs, of all namespaces that it serves."""
    free: GpuAmount = 0
    """What a job could be given now without an eviction."""


class LocalQueueStatus(StatusModel):
    guaranteed: GpuAmount = 0
    """GPUs that are the queue's own: others give them back when it asks."""
    used: GpuAmount = 0
    """GPUs that its jobs hold, of all namespaces that it serves."""
    used_here: GpuAmount = 0
    """Of these, by jobs of this namespace."""
    borrowed: GpuAmount = 0
    """Of what is used, beyond what is guaranteed: others may ask for it back."""
    free: GpuAmount = 0
    """GPUs that a job of this namespace could be given now without an eviction: idle, and within all limits. How they
    lie on nodes is not looked at."""
    running: int = 0
    """Jobs of this namespace that hold GPUs."""
    pending: int = 0
    """Jobs of this namespace that wait."""
    quotas: tuple[LocalQuota, ...] = ()
    """The same for every line of its quota."""


class LocalQueue(Model):
    """What a namespace may see of a queue that serves it. Written by the operator; has the queue's name."""

    api_version: Literal["cotenant.dev/v1alpha1"]
    kind: Literal["LocalQueue"]
    metadata: ObjectMeta
    status: LocalQueueStatus = LocalQueueStatus()

    RULES: ClassVar[tuple[Rule, ...]] = ()
