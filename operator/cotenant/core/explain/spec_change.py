"""A change of a job's own spec: in words, as fields to write, and as the job that it makes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cotenant.core.explain.deadline import Deadline
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Verdict


class Starts(Protocol):
    def __call__(self, changed: Job, ends_by: float | None = None) -> bool:
        """True if the changed job would start at once. `ends_by`: when it will have ended for sure."""
        ...


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One change, in words that follow "it would start if", and as the fields of the spec that are to be written."""

    words: str
    fields: tuple[tuple[str, str], ...] = ()
    """(path, value as JSON, null: left out); empty for a change that is not the tenant's."""
    job: Job | None = field(default=None, compare=False)
    """The job with this change."""
    ends_by: float | None = field(default=None, compare=False)
    """The instant that the change words as the time that is left until then; None: the change names no time."""

    @classmethod
    def of(
        cls, words: str, job: Job, *fields: tuple[str, str | int | list[str] | None], ends_by: float | None = None
    ) -> SpecChange:
        """The change that makes this job. `fields`: (path, value)."""
        return cls(words, tuple((path, json.dumps(value)) for path, value in fields), job, ends_by)

    def added_to(self, verdict: Verdict) -> Verdict:
        return replace(verdict, would_start_if=self.words, change=self.fields)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Names and amounts that a change may propose."""

    classes: tuple[str, ...]
    """Of devices that run the same programs."""
    zones: tuple[str, ...]
    priorities: tuple[int, ...]
    """Priorities that the queue allows and with which the job would pass jobs for which places are kept."""
    workers: int
    """The most workers of this kind for which there could be room."""
    deadlines: tuple[Deadline, ...]
    """When GPUs that are reserved for other jobs are taken, latest first."""
    any_class: bool = True
    """True if a request that names no class gets devices that run the same programs."""


def with_gpu(job: Job, **changes: Any) -> Job:
    """The job with these fields of its `GpuRequest` changed."""
    return replace(job, gpu=replace(job.gpu, **changes))
