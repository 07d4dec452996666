"""What a profile stands for: fields that a TrainingJob may leave out, and bounds on what it writes instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import Field

from cotenant.api.resources.job_spec.chiefs import Chief
from cotenant.api.resources.job_spec.evaluators import EvaluatorShape
from cotenant.api.resources.job_spec.machine import (
    MAX_GPUS_PER_WORKER,
    MAX_RANKS,
    SPREAD_BELOW_TOPOLOGY,
    GpuSpec,
    SpreadSpec,
    TopologySpec,
)
from cotenant.api.resources.job_spec.parameter_servers import ParameterServer
from cotenant.api.resources.job_spec.runtime import Framework, Image, Resources
from cotenant.api.scalars.amounts import CpuAmount, HostMemory
from cotenant.api.scalars.fields import LabelValue, Str, bounded, text, whole
from cotenant.api.validation.rules import Model, Rule

MAX_NAMES = 16
ImagePrefix: TypeAlias = Annotated[
    Str,
    *text(r"^[a-zA-Z0-9][-a-zA-Z0-9._:/@]*$", "must be how the name of an image begins, without spaces", longest=256),
]
"""Without characters that JSON escapes, because a profile is copied into the status of each job."""


def gpu_left_to_profile(data: Any) -> Any:
    """A spec that may leave `gpu` out if it names a profile. Without a profile, the refusal says that it is missing."""
    if isinstance(data, Mapping) and "profile" in data and "gpu" not in data:
        return {**data, "gpu": None}
    return data


_IN_ORDER = Rule("min", "self.min <= self.max", "min must be at most max", lambda it: it.min <= it.max)


class WorkerBounds(Model):
    min: Annotated[int, *whole(1, MAX_RANKS)] = 1
    max: Annotated[int, *whole(1, MAX_RANKS)] = MAX_RANKS

    RULES: ClassVar[tuple[Rule, ...]] = (_IN_ORDER,)


class GpuBounds(Model):
    """GPUs of one worker. A share of a GPU counts as less than one. `max` counts the GPUs of shares of several."""

    min: Annotated[int, *whole(0, MAX_GPUS_PER_WORKER)] = 0
    """With 0, shares are allowed."""
    max: Annotated[int, *whole(1, MAX_GPUS_PER_WORKER)] = MAX_GPUS_PER_WORKER

    RULES: ClassVar[tuple[Rule, ...]] = (_IN_ORDER,)


class ResourceBounds(Model):
    """The most CPU and memory of the node, and space in /tmp, that one rank asks for."""

    cpu: CpuAmount | None = None
    memory: HostMemory | None = None
    scratch: HostMemory | None = None


class ProfileBounds(Model):
    """Bounds on a job that names the profile. Fields that are not named here are free."""

    workers: WorkerBounds | None = None
    """Bounds of workers and of minWorkers."""
    gpus: GpuBounds | None = None
    """GPUs per worker."""
    resources: ResourceBounds | None = None
    """The most of each that a job may ask for in `resources`."""
    chief: ResourceBounds | None = None
    """The same of rank 0, in `chief.resources`. Default: as for `resources`."""
    classes: Annotated[tuple[LabelValue, ...], Field(max_length=MAX_NAMES)] = ()
    """GPU classes. A job that names none may get any of these."""
    zones: Annotated[tuple[LabelValue, ...], Field(max_length=MAX_NAMES)] = ()
    """Zones. A job that names none may be in any of these."""
    images: Annotated[tuple[ImagePrefix, ...], Field(max_length=MAX_NAMES)] = ()
    """How the names of images may begin, up to a `/`, `:` or `@`: `registry.example/team`. The operator's own worker
    image, which a job has that names none, is always allowed."""


class ProfileRuntime(Model):
    """Parts of the runtime. The program always comes from the job."""

    image: Image | None = None
    framework: Framework | None = None
    parameter_server: ParameterServer | None = None
    """For jobs with strategy ParameterServer that do not describe their servers."""


class ProfileSpec(Model):
    """Each field applies if a job leaves it out."""

    description: Annotated[Str, *bounded(256)] = ""
    """What the profile is for, for people who choose one."""
    workers: Annotated[int, *whole(1, MAX_RANKS)] | None = None
    min_workers: Annotated[int, *whole(1, MAX_RANKS)] | None = None
    """For elastic jobs. A job that sets `workers` is elastic only by its own minWorkers."""
    gpu: GpuSpec | None = None
    """A job that writes `gpu` sets the amount itself. Classes and zones that it leaves out come from here."""
    resources: Resources | None = None
    chief: Chief | None = None
    """Of jobs that leave out `resources`. A job that says `chief.resources` sets them itself."""
    topology: TopologySpec | None = None
    spread: SpreadSpec | None = None
    runtime: ProfileRuntime | None = None
    evaluator: EvaluatorShape | None = None
    """Of jobs that have an evaluator and say neither its resources nor its nodes."""
    allowed: ProfileBounds | None = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "minWorkers",
            "!has(self.minWorkers) || has(self.workers) && self.minWorkers <= self.workers",
            "minWorkers must be at most workers, which must be there too",
            lambda it: it.min_workers is None or (it.workers is not None and it.min_workers <= it.workers),
        ),
        SPREAD_BELOW_TOPOLOGY,
    )
