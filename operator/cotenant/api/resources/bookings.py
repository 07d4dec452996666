"""Booking: GPUs of a class that an administrator reserves for a queue for some time."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cotenant.api.resources.object_meta import ApiVersion, ObjectMeta
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.fields import DNS_LABEL, Instant, Label, LabelValue, Str, keyed_by, name_rule, whole
from cotenant.api.validation.rules import Model, Rule, StatusModel

MOST_GPUS = 100_000


class BookingSpec(Model):
    queue: Label
    """The Queue whose jobs may use them, including jobs of queues below it."""
    gpu_class: LabelValue
    """Class of the GPUs."""
    zone: LabelValue | None = None
    """Zone of the GPUs. Default: any."""
    gpus: Annotated[int, *whole(1, MOST_GPUS)]
    """How many whole GPUs the queue has at least. What it is guaranteed counts towards them."""
    start: Instant
    """When it begins, in UTC. Before, only jobs that will end by then are placed on them."""
    end: Instant
    """When it ends by itself, in UTC."""
    reason: Annotated[Str, Field(max_length=500)] = ""
    """What it is for. Jobs that wait because of it show this text."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "end",
            "self.start < self.end",
            "end is not after start: a booking lasts for some time",
            lambda it: it.start < it.end,
        ),
    )

    @property
    def start_at(self) -> float:
        """Unix seconds."""
        return datetime.fromisoformat(self.start).timestamp()

    @property
    def end_at(self) -> float:
        """Unix seconds."""
        return datetime.fromisoformat(self.end).timestamp()


class BookingStatus(StatusModel):
    phase: Str = ""
    """Pending, Active, Ended, or Overbooked: not all of it can be kept."""
    message: Str = ""
    """The phase as a sentence: what is there, what is missing, and why."""
    booked: Str = ""
    """In short: `4 GPUs of class H100`."""
    granted: int = 0
    """GPUs of it for which there is room beside all guarantees and earlier bookings."""
    kept: int = 0
    """GPUs that are reserved for it and that its queue does not use: free, or held by jobs that will end in time."""
    used: Str = ""
    """GPUs of it that its queue holds."""
    nodes: Annotated[tuple[Str, ...], Field(max_length=64)] = ()
    """Nodes on which GPUs are reserved for it, at most 64."""
    conditions: Annotated[tuple[Condition, ...], *keyed_by("type")] = ()
    observed_generation: int = 0


class Booking(Model):
    """GPUs that are reserved for a queue for some time. Administrators make it."""

    api_version: ApiVersion
    kind: Literal["Booking"]
    metadata: ObjectMeta
    spec: BookingSpec
    status: BookingStatus = BookingStatus()

    RULES: ClassVar[tuple[Rule, ...]] = (
        name_rule(DNS_LABEL, "a booking's name must be at most 63 lower-case letters, digits and '-'"),
    )
