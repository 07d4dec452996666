"""QuotaRequest: what a tenant asks for beyond its Queue's quotas, until when and why; and the answer.

The spec never changes, so what is approved is what was read. The answer is `status.approval`: for RBAC the status is a
resource of its own, as `/approval` is for certificate requests, and a policy lets only approvers write it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cotenant.api.resources.object_meta import ApiVersion, ObjectMeta
from cotenant.api.resources.queues import lines_differ
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.amounts import GpuAmount, PooledMemory
from cotenant.api.scalars.fields import (
    DNS_LABEL,
    Instant,
    Label,
    LabelValue,
    Str,
    Timestamp,
    UserName,
    keyed_by,
    name_rule,
)
from cotenant.api.validation.rules import Model, Rule, StatusModel, TransitionRule

MOST_LINES = 16


class MoreQuota(Model):
    """More for one line of the queue's quotas: the one of the same class, zone and user. If no line counts the same
    GPUs, a new one.
    """

    gpu_class: LabelValue | None = None
    """The line's class. Default: the line for any class."""
    zone: LabelValue | None = None
    """The line's zone. Default: the line for any zone."""
    user: UserName | None = None
    """Raise the queue's limit for one user. Default: for the queue."""
    gpus: GpuAmount
    """How many more GPUs the queue, or the user, may hold under it."""
    guaranteed: GpuAmount = 0
    """How many of these the queue is guaranteed."""
    memory: PooledMemory | None = None
    """How much more GPU memory, if the line limits it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "guaranteed",
            "double(self.guaranteed) <= double(self.gpus)",
            "guaranteed is more than gpus, of which it is a part; raise gpus",
            lambda it: it.guaranteed <= it.gpus,
        ),
        Rule(
            "user",
            "!has(self.user) || double(self.guaranteed) == 0.0",
            "what is guaranteed is the queue's and not one user's; leave guaranteed out, or user",
            lambda it: it.user is None or it.guaranteed == 0,
        ),
    )

    @property
    def scope(self) -> tuple[str | None, str | None, str | None]:
        return self.gpu_class, self.zone, self.user


class QuotaRequestSpec(Model):
    queue: Label | None = None
    """The Queue that gets more. It must serve the namespace. Default: the only one that does."""
    quotas: Annotated[tuple[MoreQuota, ...], Field(min_length=1, max_length=MOST_LINES)]
    """What is asked for, in addition to what the queue has. Every line of a queue that matches a job must allow it, so
    ask for each line that stops you.
    """
    until: Instant
    """When it ends by itself, in UTC."""
    reason: Annotated[Str, Field(min_length=1, max_length=500)]
    """What it is for, for the person who decides."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        lines_differ("two lines are for the same class, zone and user; make one line of them"),
    )

    @property
    def until_at(self) -> float:
        """Unix seconds."""
        return datetime.fromisoformat(self.until).timestamp()


class Approval(StatusModel):
    """The answer to a request, by a person who may approve quotarequests. It may change once, from Approved to Denied:
    then the grant is taken back.
    """

    decision: Literal["Approved", "Denied"]
    by: Annotated[Str, Field(min_length=1, max_length=256)]
    """Who answers, by the name that the API server knows."""
    message: Annotated[Str, Field(max_length=500)] = ""
    """For the tenant."""
    until: Instant | None = None
    """An earlier end than the request asks for."""


class Granted(StatusModel):
    """What an approval granted when it was first seen. Only its end may change."""

    queue: Str = ""
    quotas: Annotated[tuple[MoreQuota, ...], Field(max_length=MOST_LINES)] = ()
    since: Timestamp | None = None
    until: Timestamp | None = None
    digest: Str = ""
    """Digest of the approved spec. Another spec is granted nothing."""


class QuotaRequestStatus(StatusModel):
    phase: Str = ""
    """Pending, Granted, Denied, Revoked, Expired, or Invalid: it cannot be granted as written."""
    message: Str = ""
    """The phase as a sentence."""
    queue: Str = ""
    """The Queue that is asked."""
    asked: Str = ""
    """In short: `4 GPUs of class H100`."""
    approval: Approval | None = None
    granted: Granted | None = None
    conditions: Annotated[tuple[Condition, ...], *keyed_by("type")] = ()
    observed_generation: int = 0


_DECIDED = "has(oldSelf.status) && has(oldSelf.status.approval)"
_KEPT = "has(self.status) && has(self.status.approval)"


class QuotaRequest(Model):
    """What a tenant asks for beyond its quota, for some time. An administrator approves or denies it."""

    api_version: ApiVersion
    kind: Literal["QuotaRequest"]
    metadata: ObjectMeta
    spec: QuotaRequestSpec
    status: QuotaRequestStatus = QuotaRequestStatus()

    RULES: ClassVar[tuple[Rule, ...]] = (
        name_rule(DNS_LABEL, "a request's name must be at most 63 lower-case letters, digits and '-'"),
    )
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = (
        TransitionRule(
            "spec",
            "self.spec == oldSelf.spec",
            "a request stays as it was made, so that what is approved is what was read; delete it and make another",
        ),
        TransitionRule(
            "status.approval",
            f"!({_DECIDED}) || ({_KEPT} && (self.status.approval == oldSelf.status.approval"
            " || (oldSelf.status.approval.decision == 'Approved' && self.status.approval.decision == 'Denied')))",
            "the request has been answered; an approval may only be taken back (decision: Denied), for anything else"
            " there has to be another request",
        ),
    )

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace or 'default'}/{self.metadata.name}"
