"""Queue: a tenant's place in the quota tree: its quotas, its namespaces, and how much it lends."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from cotenant.api.resources.namespace_selectors import NamespaceSelector
from cotenant.api.resources.object_meta import ApiVersion, ObjectMeta
from cotenant.api.resources.queue_status import QueueStatus
from cotenant.api.resources.remote_clusters import SpilloverSpec
from cotenant.api.scalars.amounts import Duration, GpuAmount, GpuHours, Money, PooledMemory
from cotenant.api.scalars.fields import DNS_LABEL, Label, LabelValue, Priority, UserName, name_rule, whole
from cotenant.api.validation.rules import Model, Rule
from cotenant.core.model.objects import Period, TimeOrder

EVERY_USER = "*"


class QuotaSpec(Model):
    """One line of quota. Every line that matches a request must allow it; a line without class or zone matches any. A
    line with a user grants nothing: it limits what that user may have of the others.
    """

    gpu_class: LabelValue | None = None
    """For GPUs of this class. Default: any."""
    zone: LabelValue | None = None
    """For GPUs in this zone. Default: any."""
    user: UserName | None = None
    """For jobs of this user alone, or, with `*`, for each user without a line of the same class and zone. Such a line
    has a `limit` or a `memoryLimit`. Default: all users together.
    """
    guaranteed: GpuAmount = 0
    """GPUs that belong to the queue: others give them back when it asks."""
    limit: GpuAmount | None = None
    """The most that the queue may hold, including borrowed GPUs. Default: what the tree can lend."""
    lendable: GpuAmount | None = None
    """How much of `guaranteed` others may use while it is idle. Default: all of it."""
    memory_limit: PooledMemory | None = None
    """The most GPU memory that the queue may hold at once, over any number of GPUs. Default: no such limit."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "limit",
            "!has(self.limit) || double(self.guaranteed) <= double(self.limit)",
            "limit is less than guaranteed: it counts what is guaranteed and what is borrowed; raise it",
            lambda it: it.limit is None or it.guaranteed <= it.limit,
        ),
        Rule(
            "lendable",
            "!has(self.lendable) || double(self.lendable) <= double(self.guaranteed)",
            "lendable is more than guaranteed: a queue can lend only what is its own; leave it out to lend all of that",
            lambda it: it.lendable is None or it.lendable <= it.guaranteed,
        ),
        Rule(
            "guaranteed",
            "!has(self.user) || double(self.guaranteed) == 0.0",
            "a line for a user only limits: leave guaranteed out, it is for the whole queue; for GPUs of his own make a"
            " queue below this one",
            lambda it: it.user is None or it.guaranteed == 0,
        ),
        Rule(
            "user",
            "!has(self.user) || has(self.limit) || has(self.memoryLimit)",
            "a line for a user only limits: write its limit or its memoryLimit",
            lambda it: it.user is None or it.limit is not None or it.memory_limit is not None,
        ),
    )


def lines_differ(message: str) -> Rule:
    """Rule of an object with lines of quota: each is for another class, zone or user."""
    return Rule(
        "quotas",
        "!has(self.quotas) || self.quotas.all(a, self.quotas.exists_one(b,"
        " has(a.gpuClass) == has(b.gpuClass) && (!has(a.gpuClass) || a.gpuClass == b.gpuClass)"
        " && has(a.zone) == has(b.zone) && (!has(a.zone) || a.zone == b.zone)"
        " && has(a.user) == has(b.user) && (!has(a.user) || a.user == b.user)))",
        message,
        lambda it: len({(line.gpu_class, line.zone, line.user) for line in it.quotas}) == len(it.quotas),
    )


class UserLimits(Model):
    limit: GpuAmount
    """The most that one user may hold in this queue."""


class SessionLimits(Model):
    """The longest times of sessions. A session that asks for more gets these."""

    idle_timeout: Duration | None = None
    """A session is suspended when it was idle for this long. Default: as each session says."""
    max_lifetime: Duration | None = None
    """A session is suspended when it has run this long since it was started or resumed. Default: as each session
    says."""


class MaxPending(Model):
    """How many waiting jobs of a queue each decision considers. Further jobs wait until there is room."""

    jobs: Annotated[int, *whole(1, 10_000)] = 1_000
    """Number of jobs."""
    workers: Annotated[int, *whole(1, 1_000_000)] = 100_000
    """Their workers in total, at least. The first job is always considered."""
    gpus: GpuAmount | None = None
    """Their GPUs in total, at least. Default: as many as exist."""


class FairShare(Model):
    half_life: Duration | None = None
    """After this time, past borrowing counts half when shares are compared. Default: the operator's setting."""
    order: TimeOrder = TimeOrder.AGE
    """Which job of equal priority goes first in a queue: the oldest (`Age`); the one with the least GPU time so far, in
    levels of 4, 32 and 256 GPU-hours (`LeastService`); or, inside such a level, the one that needs the least from now
    on, as learned from similar jobs (`Predicted`). Except with `Age`, a job that has waited for half an hour may have a
    job evicted that has had more.
    """


class CarryOver(StrEnum):
    NONE = "None"
    UNUSED = "Unused"


class Budget(Model):
    gpu_hours: GpuHours | None = None
    """GPUs × hours that the queue's jobs may use in each period. Default: as many as the money pays for."""
    money: Money | None = None
    """What they may cost in each period, in the currency of the operator's price list. A class without a price costs
    nothing. Default: no such limit."""
    period: Period
    """When a new period begins, at 00:00 UTC: every day, every Monday, or on the first of the month."""
    carry_over: CarryOver = CarryOver.NONE
    """Unused: what is left at the end of a period is added to the next."""
    carry_over_percent: Annotated[int, *whole(1, 1000)] | None = None
    """The most that is added, in percent of the budget of one period. Default: 100."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "gpuHours",
            "has(self.gpuHours) || has(self.money)",
            "a budget needs gpuHours, money or both; write for example gpuHours: 100",
            lambda it: it.gpu_hours is not None or it.money is not None,
        ),
        Rule(
            "carryOverPercent",
            "!has(self.carryOverPercent) || (has(self.carryOver) && self.carryOver == 'Unused')",
            "carryOverPercent bounds what is carried over; write carryOver: Unused beside it, or leave it out",
            lambda it: it.carry_over_percent is None or it.carry_over is CarryOver.UNUSED,
        ),
    )


class ConsolidationPolicy(StrEnum):
    NEVER = "Never"
    ALLOWED = "Allowed"


HoldReason: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]


class QueueSpec(Model):
    parent: Label | None = None
    """The queue above this one. A parent's quota limits all its children together."""
    namespaces: Annotated[tuple[Label, ...], Field(max_length=256)] = ()
    """Namespaces whose jobs may use the queue, by name."""
    namespace_selector: NamespaceSelector | None = None
    """Namespaces selected by label, in addition."""
    weight: Annotated[int, *whole(1, 1000)] = 1
    """Its share of idle GPUs, relative to its siblings."""
    quotas: Annotated[tuple[QuotaSpec, ...], Field(max_length=64)] = ()
    """The queue's quota. Without a line, nothing is allowed."""
    users: UserLimits | None = None
    """Limits for every user alike, a short form of a line of `quotas` with `user: "*"`, which may also name a class and
    a zone.
    """
    sessions: SessionLimits | None = None
    """Limits for sessions of the queue, and of queues below."""
    max_priority: Priority | None = None
    """The highest priority of its jobs, and of those of queues below. Default: 1000; of a PriorityClass, 1000000000."""
    min_priority: Priority | None = None
    """The lowest priority. Default: -1000; of a PriorityClass, -1000000000."""
    max_pending: MaxPending = MaxPending()
    """How many of the queue's own jobs are considered while they wait. Its users take turns."""
    budget: Budget | None = None
    """What its jobs, and those of queues below, may use. If it is spent, nothing starts; running jobs go on."""
    consolidation: ConsolidationPolicy = ConsolidationPolicy.NEVER
    """Whether its jobs may be moved, through a checkpoint, if that lets a job start that otherwise cannot."""
    hold: HoldReason | None = None
    """If set, no job of the queue, nor of queues below, starts or grows; running jobs go on. The text is the reason
    that waiting jobs show.
    """
    protected_runtime: Duration | None = None
    """A job of the queue that has run for less is not evicted by priority or fair share. A queue that asks for what it
    is guaranteed does not wait for it. Default: the operator's setting."""
    fair_share: FairShare | None = None
    """How the whole tree below this queue remembers borrowing and orders jobs. For queues without a parent."""
    spillover: SpilloverSpec | None = None
    """Hand jobs that have waited for long to another cluster. For jobs of this queue, not of queues below."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "namespaces",
            "!has(self.namespaces) || self.namespaces.all(a, self.namespaces.exists_one(b, a == b))",
            "a namespace appears twice; leave one of the two out",
            lambda it: len(set(it.namespaces)) == len(it.namespaces),
        ),
        lines_differ("two quotas are for the same class and zone; make one line of them"),
        Rule(
            "users",
            "!has(self.users) || !has(self.quotas)"
            " || !self.quotas.exists(a, has(a.user) && a.user == '*' && !has(a.gpuClass) && !has(a.zone))",
            "users.limit and a quota for user '*' without class and zone say the same; leave one of the two out",
            lambda it: (
                it.users is None
                or not any((line.user, line.gpu_class, line.zone) == (EVERY_USER, None, None) for line in it.quotas)
            ),
        ),
        Rule(
            "minPriority",
            "!(has(self.minPriority) && has(self.maxPriority)) || self.minPriority <= self.maxPriority",
            "minPriority is more than maxPriority",
            lambda it: it.min_priority is None or it.max_priority is None or it.min_priority <= it.max_priority,
        ),
        Rule(
            "fairShare",
            "!has(self.fairShare) || !has(self.parent)",
            "a tree has one fairShare: set it on the queue at the top, the one without a parent",
            lambda it: it.fair_share is None or it.parent is None,
        ),
    )


class Queue(Model):
    """A tenant's place in the quota tree."""

    api_version: ApiVersion
    kind: Literal["Queue"]
    metadata: ObjectMeta
    spec: QueueSpec
    status: QueueStatus = QueueStatus()

    RULES: ClassVar[tuple[Rule, ...]] = (
        name_rule(DNS_LABEL, "a queue's name must be at most 63 lower-case letters, digits and '-'"),
        Rule(
            "spec.parent",
            "!has(self.spec.parent) || self.spec.parent != self.metadata.name",
            "a queue cannot be its own parent; name another, or leave parent out for a queue at the top",
            lambda it: it.spec.parent != it.metadata.name or it.spec.parent is None,
        ),
    )
