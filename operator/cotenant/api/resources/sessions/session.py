"""Session: the spec that a tenant writes, with its rules."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from cotenant.api.resources.job_spec.env_vars import EnvVar
from cotenant.api.resources.job_spec.machine import GpuSpec
from cotenant.api.resources.job_spec.profile import gpu_left_to_profile
from cotenant.api.resources.job_spec.runtime import MAX_ARGUMENTS, Image, Resources
from cotenant.api.resources.job_spec.volumes import ClaimSource
from cotenant.api.resources.object_meta import ApiVersion, ObjectMeta
from cotenant.api.resources.sessions.session_status import SessionStatus
from cotenant.api.scalars.amounts import Duration, GracePeriod
from cotenant.api.scalars.fields import (
    PRIORITY_ONCE,
    Bool,
    Label,
    ObjectName,
    Priority,
    Str,
    keyed_by,
    name_rule,
    passed_on,
    whole,
)
from cotenant.api.validation.rules import Model, Rule

NAME: Final = r"^[a-z]([-a-z0-9]{0,40}[a-z0-9])?$"
"""Its job is called `<session>-session`, and the name of a job has at most 50 characters."""
ENV_MAX: Final = 64


class Application(StrEnum):
    JUPYTER_LAB = "JupyterLab"
    CODE_SERVER = "CodeServer"
    SHELL = "Shell"
    PROGRAM = "Program"


class SessionProgram(Model):
    """A program of the tenant's own that serves HTTP."""

    command: Annotated[tuple[Annotated[str, *passed_on(4096)], ...], Field(min_length=1, max_length=MAX_ARGUMENTS)]
    """It listens on 127.0.0.1, on `port`, which is also in `COTENANT_SESSION_PORT`."""
    port: Annotated[int, *whole(1024, 65_535)]


class SessionSpec(Model):
    application: Application
    """What runs: JupyterLab, CodeServer, a Shell to attach to, or a Program of your own. The image must contain it."""
    program: SessionProgram | None = None
    """The program, for the application Program."""
    queue: Label
    """The Queue whose quota the session uses. It must serve its namespace."""
    priority: Priority | None = None
    """Order inside the queue, higher first. Default: 0."""
    priority_class_name: ObjectName | None = None
    """Take the priority of this PriorityClass instead."""
    profile: ObjectName | None = None
    """A TrainingProfile of the namespace, otherwise a ClusterTrainingProfile: defaults for `gpu`, `resources` and
    `image`. What it stood for when the session was started is in the status of its TrainingJob.
    """
    gpu: GpuSpec | None
    """A whole GPU, or a share of one. It may be left out only with a profile that names GPUs."""
    resources: Resources | None = None
    """Default: one CPU and 4Gi, or those of the profile."""
    image: Image | None = None
    """An image with the application and Cotenant's worker. Default: that of the profile, or the operator's worker
    image, which has only a Shell.
    """
    env: Annotated[tuple[EnvVar, ...], Field(max_length=ENV_MAX), *keyed_by("name")] = ()
    """Variables of the application, in addition to those that the operator sets."""
    volume: ClaimSource | None = None
    """What is mounted at /home/session, where the application starts. Without it, files are lost when the session is
    suspended.
    """
    idle_timeout: Duration = 3600
    """The session is suspended after this time without a running kernel or a busy GPU. A warning comes before."""
    max_lifetime: Duration = 43_200
    """The session is suspended this long after it was started or resumed, however busy it is."""
    grace_period: GracePeriod = 30
    """Time to end when it is suspended or has to leave."""
    suspend: Bool = False
    """True: give the GPUs back and keep the volume; false: run. The operator sets it if the session is idle."""

    @classmethod
    def as_written(cls, data: Any) -> Any:
        return gpu_left_to_profile(super().as_written(data))

    RULES: ClassVar[tuple[Rule, ...]] = (
        PRIORITY_ONCE,
        Rule(
            "program",
            "self.application != 'Program' || has(self.program)",
            "application: Program needs program; write for example"
            ' `spec.program: {command: ["python", "-m", "http.server", "8000"], port: 8000}`',
            lambda it: it.program is not None or it.application is not Application.PROGRAM,
        ),
        Rule(
            "program",
            "self.application == 'Program' || !has(self.program)",
            "program belongs to application: Program; leave one of the two out, or write `spec.application: Program`",
            lambda it: it.program is None or it.application is Application.PROGRAM,
        ),
    )


class Session(Model):
    """A program that a person works with (a notebook, an editor, a shell), on GPUs under a tenant's queue."""

    api_version: ApiVersion
    kind: Literal["Session"]
    metadata: ObjectMeta
    spec: SessionSpec
    status: SessionStatus = SessionStatus()

    RULES: ClassVar[tuple[Rule, ...]] = (
        name_rule(
            NAME,
            "a session's name must start with a letter and have at most 42 lower-case letters, digits and '-': its job"
            " is named after it",
        ),
    )

    @property
    def key(self) -> Str:
        return f"{self.metadata.namespace or 'default'}/{self.metadata.name}"
