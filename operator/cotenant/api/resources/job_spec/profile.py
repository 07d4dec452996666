"""What a profile stands for: fields of a TrainingJob that may be left out, and bounds on what is written instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import Field

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
from cotenant.api.scalars.fields import LabelValue, Str, bounded, text, whole
from cotenant.api.validation.rules import Model, Rule

MAX_NAMES = 16
ImagePrefix: TypeAlias = Annotated[
    Str,
    *text(r"^[a-zA-Z0-9][-a-zA-Z0-9._:/@]*$", "must be how the name of an image begins, without spaces", longest=256),
]
"""Without what JSON escapes: a profile is copied into the status of each job."""


def gpu_left_to_profile(data: Any) -> Any:
    """A spec as it is written, where `gpu` may be left out with a profile; without one the refusal says that it is
    missing.
    """
    if isinstance(data, Mapping) and "profile" in data and "gpu" not in data:
        return {**data, "gpu": None}
    return data


class WorkerBounds(Model):
    min: Annotated[int, *whole(1, MAX_RANKS)] = 1
    max: Annotated[int, *whole(1, MAX_RANKS)] = MAX_RANKS

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "min",
            "self.min <= self.max",
            "min must be at most max",
            lambda it: it.min <= it.max,
        ),
    )


class GpuBounds(Model):
    """GPUs of one worker. A share of a GPU is less than one; shares of several are on so many GPUs, as `max` counts."""

    min: Annotated[int, *whole(0, MAX_GPUS_PER_WORKER)] = 0
    """With 0, shares are allowed."""
    max: Annotated[int, *whole(1, MAX_GPUS_PER_WORKER)] = MAX_GPUS_PER_WORKER

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "min",
            "self.min <= self.max",
            "min must be at most max",
            lambda it: it.min <= it.max,
        ),
    )


class ProfileBounds(Model):
    """Bounds of a job that names the profile. What is not named here is free."""

    workers: WorkerBounds | None = None
    """Also of minWorkers."""
    gpus: GpuBounds | None = None
    """Per worker."""
    classes: Annotated[tuple[LabelValue, ...], Field(max_length=MAX_NAMES)] = ()
    """GPU classes; a job that names none may have any of these."""
    zones: Annotated[tuple[LabelValue, ...], Field(max_length=MAX_NAMES)] = ()
    """Zones; a job that names none may be in any of these."""
    images: Annotated[tuple[ImagePrefix, ...], Field(max_length=MAX_NAMES)] = ()
    """How the names of images may begin, up to a `/`, `:` or `@`: `registry.example/team`. The operator's own worker
    image, which a job has that names none, is always allowed."""


class ProfileRuntime(Model):
    """Parts of the runtime. The program is always the job's own."""

    image: Image | None = None
    framework: Framework | None = None
    parameter_server: ParameterServer | None = None
    """Of jobs with strategy ParameterServer that do not describe theirs."""


class ProfileSpec(Model):
    """Each of these fields counts where a job leaves it out."""

    description: Annotated[Str, *bounded(256)] = ""
    """For whom chooses among profiles."""
    workers: Annotated[int, *whole(1, MAX_RANKS)] | None = None
    min_workers: Annotated[int, *whole(1, MAX_RANKS)] | None = None
    """Elastic jobs. A job that says how many workers it wants is elastic only by its own minWorkers."""
    gpu: GpuSpec | None = None
    """A job that writes `gpu` says how much itself; classes and zones that it leaves out are these."""
    resources: Resources | None = None
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
