"""Status of a Queue, written by the controller: what its jobs hold, borrow and have used up; and what a namespace
that it serves may see of that.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cotenant.api.resources.object_meta import ApiVersion, ObjectMeta
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


class UserUsage(StatusModel):
    """What one user holds under one limit of users."""

    user: str = ""
    gpu_class: str | None = None
    zone: str | None = None
    limit: GpuAmount | None = None
    used: GpuAmount = 0
    memory_used: str | None = None
    """Where the line limits it."""
    memory_limit: str | None = None


class MoneyUsage(StatusModel):
    spent_micros: int = Field(default=0, ge=0)
    """Exactly, in this period: whole micro-units of the currency."""
    spent_remainder: int = Field(default=0, ge=0)
    """What is left of a micro-unit, in micro-units × milli-GPU × seconds of an hour: 3600000 make one micro-unit."""
    carried_micros: int = Field(default=0, ge=0)
    """Micro-units that the period before left over."""
    spent: str = ""
    """For people."""
    left: str = ""
    """For people."""
    currency: str = ""


class BudgetUsage(StatusModel):
    spent_milli_gpu_seconds: int = Field(default=0, alias="spentMilliGPUSeconds")
    """Exactly, in this period."""
    carried_milli_gpu_seconds: int = Field(default=0, alias="carriedMilliGPUSeconds", ge=0)
    """What the period before left over."""
    spent: str = ""
    """In GPU-hours, for people."""
    left: str = ""
    """In GPU-hours, for people; empty where they are not limited."""
    money: MoneyUsage | None = None
    """The same in money, where that is limited."""
    burn_down: str = ""
    """How much of the budget is spent, and of the period over: `37 % spent, 52 % of the month over`."""
    projected_end: Timestamp | None = None
    """When it ends at what its jobs hold now; absent where that is not in this period."""
    counted_until: Timestamp | None = None
    """Until then all that was held is counted: from there the next leader goes on."""
    held_milli: int = Field(default=0, alias="heldMilliGPU", ge=0)
    """What its jobs held then."""
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
    """The same for every line of the spec that is not for users."""
    users: tuple[UserUsage, ...] = ()
    """For lines that are: who holds something under them, at most 64 of them, who is nearest to his limit first."""
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


class LocalBudget(StatusModel):
    """What is left of the queue's budget, as a namespace sees it: coarser than it is counted."""

    left: str = ""
    """In GPU-hours, rounded down; empty where they are not limited."""
    money_left: str = ""
    """In the currency of the prices, rounded down; empty where money is not limited."""
    burn_down: str = ""
    """How much is spent, and of the period over: `37 % spent, 52 % of the month over`."""
    projected_end: Timestamp | None = None
    """The hour in which it ends at what the queue's jobs hold now; absent where that is not in this period."""
    period_end: Timestamp | None = None
    """When the next period begins, and a new budget."""


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
    budget: LocalBudget | None = None
    """What is left of the queue's own budget, if it has one. A queue above it may have another, which is not shown."""


class LocalQueue(Model):
    """What a namespace may see of a queue that serves it. Written by the operator; has the queue's name."""

    api_version: ApiVersion
    kind: Literal["LocalQueue"]
    metadata: ObjectMeta
    status: LocalQueueStatus = LocalQueueStatus()

    RULES: ClassVar[tuple[Rule, ...]] = ()
