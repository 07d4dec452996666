"""Status of a Queue, written by the controller: what its jobs hold, borrow and have used; and the part that a namespace
may see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from cotenant.api.resources.object_meta import ApiVersion, ObjectMeta
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.amounts import GpuAmount
from cotenant.api.scalars.fields import Timestamp, keyed_by
from cotenant.api.scalars.quantities import show_mib
from cotenant.api.validation.rules import Model, StatusModel


class QuotaUsage(StatusModel):
    gpu_class: str | None = None
    zone: str | None = None
    guaranteed: GpuAmount = 0
    effective: GpuAmount = 0
    """`guaranteed`, scaled to the nodes that are there."""
    used: GpuAmount = 0
    """GPUs that its jobs hold."""
    borrowed: GpuAmount = 0
    """The part of `used` beyond the guarantee."""
    lent: GpuAmount = 0
    """The part of the guarantee that others hold."""
    memory_used: str | None = None
    """GPU memory that its jobs hold, if the line limits it."""
    memory_limit: str | None = None
    """The most GPU memory that they may hold."""


class UserUsage(StatusModel):
    """What one user holds under one user limit."""

    user: str = ""
    gpu_class: str | None = None
    zone: str | None = None
    limit: GpuAmount | None = None
    used: GpuAmount = 0
    memory_used: str | None = None
    """GPU memory held, if the line limits it."""
    memory_limit: str | None = None


def pooled_use(held: Sequence[int], limits: Sequence[int | None]) -> dict[str, str]:
    """Fields of a line, of the queue or of a user, for what it limits besides GPUs. Both arguments: by dimension, in
    the order of the core's `Amounts`."""
    (_, mib), (_, most) = held, limits
    return {} if most is None else {"memory_used": show_mib(mib), "memory_limit": show_mib(most)}


class MoneyUsage(StatusModel):
    spent_micros: int = Field(default=0, ge=0)
    """Exact amount spent in this period, in whole micro-units of the currency."""
    spent_remainder: int = Field(default=0, ge=0)
    """The rest of a micro-unit, in micro-units × milli-GPU × seconds of an hour: 3600000 make one micro-unit."""
    carried_micros: int = Field(default=0, ge=0)
    """Micro-units that were left over from the period before."""
    spent: str = ""
    """Amount spent, for people."""
    left: str = ""
    """Amount left, for people."""
    currency: str = ""


class BudgetUsage(StatusModel):
    spent_milli_gpu_seconds: int = Field(default=0, alias="spentMilliGPUSeconds")
    """Exact amount spent in this period."""
    carried_milli_gpu_seconds: int = Field(default=0, alias="carriedMilliGPUSeconds", ge=0)
    """Amount left over from the period before."""
    spent: str = ""
    """GPU-hours spent, for people."""
    left: str = ""
    """GPU-hours left, for people; empty if they are not limited."""
    money: MoneyUsage | None = None
    """The same in money, if that is limited."""
    burn_down: str = ""
    """How much of the budget is spent, and of the period over: `37 % spent, 52 % of the month over`."""
    projected_end: Timestamp | None = None
    """When it ends at what its jobs hold now; absent if that is after this period."""
    counted_until: Timestamp | None = None
    """Everything that was held until this time is counted. A new leader continues from here."""
    held_milli: int = Field(default=0, alias="heldMilliGPU", ge=0)
    """Milli-GPU that its jobs held then."""
    period_start: Timestamp | None = None
    period_end: Timestamp | None = None


class PastBorrowing(StatusModel):
    milli_gpu_seconds: int = Field(default=0, alias="milliGPUSeconds")
    """Milli-GPU × seconds beyond what is guaranteed, decayed."""
    at: Timestamp
    """Time of this value."""
    half_life_seconds: int | None = None
    """Half-life of its decay."""


class QueueStatus(StatusModel):
    used: GpuAmount = 0
    """GPUs that its jobs hold."""
    borrowed: GpuAmount = 0
    """The part of `used` beyond its guarantee."""
    lent: GpuAmount = 0
    """The part of its guarantee that other queues hold."""
    pending: int = 0
    """Jobs that wait."""
    running: int = 0
    """Jobs that hold GPUs."""
    share: str = ""
    """Dominant share of what it borrows now: the queue with less goes first. Past borrowing counts in addition."""
    namespaces: tuple[str, ...] = ()
    """All namespaces that it serves now, with selectors resolved."""
    quotas: tuple[QuotaUsage, ...] = ()
    """The same for every line of the spec without a user."""
    users: tuple[UserUsage, ...] = ()
    """For lines with a user: users who hold something under them, at most 64, those nearest to their limit first."""
    budget: BudgetUsage | None = None
    past_borrowing: PastBorrowing | None = None
    """Decayed past borrowing, saved so that a new leader can continue. Updated only together with other status changes.
    """
    conditions: Annotated[tuple[Condition, ...], *keyed_by("type")] = ()
    observed_generation: int = 0


class LocalQuota(StatusModel):
    """One line of the queue's quota, as a namespace sees it."""

    gpu_class: str | None = None
    """GPU class; absent for any."""
    zone: str | None = None
    """Zone; absent for any."""
    guaranteed: GpuAmount = 0
    limit: GpuAmount | None = None
    """The most that the queue may hold, including what it borrows; absent if only the lenders limit it."""
    used: GpuAmount = 0
    """GPUs held by the queue's jobs, in all namespaces that it serves."""
    free: GpuAmount = 0
    """GPUs that a job could get now without an eviction."""


class LocalBudget(StatusModel):
    """What is left of the queue's budget, rounded for a namespace."""

    left: str = ""
    """GPU-hours left, rounded down; empty if they are not limited."""
    money_left: str = ""
    """Money left in the currency of the prices, rounded down; empty if money is not limited."""
    burn_down: str = ""
    """How much is spent, and of the period over: `37 % spent, 52 % of the month over`."""
    projected_end: Timestamp | None = None
    """The hour in which it ends at what the queue's jobs hold now; absent if that is after this period."""
    period_end: Timestamp | None = None
    """When the next period begins, with a new budget."""


class LocalQueueStatus(StatusModel):
    guaranteed: GpuAmount = 0
    """GPUs that belong to the queue: others give them back when it asks."""
    used: GpuAmount = 0
    """GPUs that its jobs hold, in all namespaces that it serves."""
    used_here: GpuAmount = 0
    """The part of `used` that jobs of this namespace hold."""
    borrowed: GpuAmount = 0
    """The part of `used` beyond the guarantee: others may ask for it back."""
    free: GpuAmount = 0
    """GPUs that a job of this namespace could get now without an eviction: idle, and within all limits. Their
    distribution over nodes is not considered.
    """
    running: int = 0
    """Jobs of this namespace that hold GPUs."""
    pending: int = 0
    """Jobs of this namespace that wait."""
    quotas: tuple[LocalQuota, ...] = ()
    """The same for every line of its quota."""
    budget: LocalBudget | None = None
    """What is left of the queue's own budget, if it has one. A queue above it may have another, which is not shown."""


class LocalQueue(Model):
    """What a namespace may see of a queue that serves it. The operator writes it; it has the queue's name."""

    api_version: ApiVersion
    kind: Literal["LocalQueue"]
    metadata: ObjectMeta
    status: LocalQueueStatus = LocalQueueStatus()
