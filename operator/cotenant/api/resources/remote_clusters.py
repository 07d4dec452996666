"""RemoteCluster: another cluster with Cotenant, on which jobs of a queue may run; and the part of a Queue that names
it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cotenant.api.resources.object_meta import ApiVersion, ObjectMeta
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.amounts import Delay, Duration
from cotenant.api.scalars.fields import DNS_LABEL, Bool, Label, ObjectName, Timestamp, keyed_by, name_rule, whole
from cotenant.api.scalars.status_fields import NameOfObject, ShortSentence, Word
from cotenant.api.validation.rules import Model, Rule, StatusModel


class SpilloverSpec(Model):
    """The clusters to which jobs of a queue go after a long wait."""

    cluster: Label
    """The RemoteCluster that gets them."""
    after: Delay = 600
    """How long a job waits here first."""
    queue: Label | None = None
    """The Queue there. Default: the one of the same name."""
    max_jobs: Annotated[int, *whole(1, 10_000)] = 100
    """The most jobs of the queue there at once, waiting or running."""


class RemoteClusterSpec(Model):
    kubeconfig_secret: ObjectName
    """A Secret in the operator's namespace with a kubeconfig under the key `kubeconfig`. The operator may read it if
    the chart's value `remoteClusters.kubeconfigSecrets` names it.
    """
    namespace: Label | None = None
    """The namespace there for all jobs. Default: the name of the job's namespace here."""
    pass_users: Bool = False
    """Name the user of each job there. The account of the kubeconfig must then be in `admission.exemptUsers` there.
    Default: all jobs count as the account's own.
    """
    give_up_after: Duration | None = None
    """If nothing is heard from the cluster for this long, its jobs wait here again. Until the cluster answers again
    they may run twice. Default: never.
    """


class RemoteClusterStatus(StatusModel):
    reachable: Word = ""
    """True, False, or empty before the first look: for the columns of `kubectl get`."""
    message: ShortSentence = ""
    """What is wrong, and what to do about it."""
    server: NameOfObject = ""
    """Address of its API server."""
    jobs: int = Field(default=0, ge=0)
    """Jobs of this cluster that are there, and have not finished."""
    running: int = Field(default=0, ge=0)
    """Those of them that have GPUs there."""
    last_seen: Timestamp | None = None
    """When it last answered, to the minute."""
    conditions: Annotated[tuple[Condition, ...], *keyed_by("type")] = ()
    observed_generation: int = Field(default=0, ge=0)


class RemoteCluster(Model):
    """Another cluster with Cotenant, to which queues may hand jobs. Made by administrators."""

    api_version: ApiVersion
    kind: Literal["RemoteCluster"]
    metadata: ObjectMeta
    spec: RemoteClusterSpec
    status: RemoteClusterStatus = RemoteClusterStatus()

    RULES: ClassVar[tuple[Rule, ...]] = (
        name_rule(DNS_LABEL, "a remote cluster's name must be at most 63 lower-case letters, digits and '-'"),
    )
