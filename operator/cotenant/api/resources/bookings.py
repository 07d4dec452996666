"""Booking: GPUs of a class that an administrator sets aside for a queue, from one moment to another."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cotenant.api.resources.object_meta import ApiVersion, ObjectMeta
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.fields import DNS_LABEL, Instant, Label, LabelValue, Str, cel_text, keyed_by, whole
from cotenant.api.validation.rules import Model, Rule, StatusModel

MOST_GPUS = 100_000


class BookingSpec(Model):
    queue: Label
    """The Queue whose jobs, and those of queues below it, may use them."""
    gpu_class: LabelValue
    """GPUs of this class."""
    zone: LabelValue | None = None
    """GPUs in this zone. Default: any."""
    gpus: Annotated[int, *whole(1, MOST_GPUS)]
    """How many whole GPUs the queue is to have at least. What it is guaranteed anyway counts towards them."""
    start: Instant
    """From when on, in UTC. Before, only jobs that will be gone by then are placed on them."""
    end: Instant
    """When it ends by itself, in UTC."""
    reason: Annotated[Str, Field(max_length=500)] = ""
    """What it is for, for whoever waits because of it."""

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
    """Pending, Active, Ended, or Overbooked: not all of it can be held to."""
    message: Str = ""
    """The same as a sentence: what is there, what is not, and why."""
    booked: Str = ""
    """In short: `4 GPUs of class H100`."""
    granted: int = 0
    """GPUs of it that there is room for beside all guarantees and earlier bookings."""
    kept: int = 0
    """GPUs that are kept for it and not used by its queue: free, or held by who will be gone in time."""
    used: Str = ""
    """GPUs of it that its queue holds."""
    nodes: Annotated[tuple[Str, ...], Field(max_length=64)] = ()
    """Where GPUs are kept for it, at most 64 nodes."""
    conditions: Annotated[tuple[Condition, ...], *keyed_by("type")] = ()
    observed_generation: int = 0


class Booking(Model):
    """GPUs that are set aside for a queue for some time. Made by administrators."""

    api_version: ApiVersion
    kind: Literal["Booking"]
    metadata: ObjectMeta
    spec: BookingSpec
    status: BookingStatus = BookingStatus()

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "metadata.name",
            f"self.metadata.name.matches({cel_text(DNS_LABEL)})",
            "a booking's name must be at most 63 lower-case letters, digits and '-'",
            lambda it: re.fullmatch(DNS_LABEL, it.metadata.final_name) is not None,
        ),
    )
