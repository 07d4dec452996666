"""A TrainingJob as last seen, decoded once: what the whole controller knows a job by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from cotenant.api.conversion.placements import to_placement
from cotenant.api.conversion.to_core import parse_job
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.api.resources.trainingjobs import TrainingJob, TrainingJobSpec
from cotenant.api.scalars.fields import DNS_LABEL
from cotenant.api.scalars.quantities import show_decimal, show_memory
from cotenant.api.validation.errors import DocumentError
from cotenant.controller.client.kube import Document, version_of
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import JobKey, Placement
from cotenant.decoding.plain_text import plain_text

PROBLEM_CHARS_MAX: Final = 2000


@dataclass(frozen=True, slots=True, order=True)
class JobId:
    """One TrainingJob, apart from earlier and later ones of the same name."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> JobKey:
        """The core's name for it, which a namesake that comes later has too."""
        return f"{self.namespace}/{self.name}"

    @property
    def owner(self) -> tuple[str, str]:
        """(namespace, uid): what its pods are kept by. A uid alone may be written into any pod of the cluster."""
        return self.namespace, self.uid

    def __str__(self) -> str:
        return self.key


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """One TrainingJob as last seen. `job` is None when its spec cannot be read, and `problem` has the reason."""

    id: JobId
    version: int
    generation: int
    raw_status: Mapping[str, Any]
    status: TrainingJobStatus
    job: TrainingJob | None
    problem: str | None = None
    queue_named: str = ""
    """Queue in its spec, whether the rest of that can be read or not; empty where there is none."""
    deleting: bool = False

    @property
    def key(self) -> JobKey:
        return self.id.key

    @property
    def uid(self) -> str:
        return self.id.uid

    @property
    def namespace(self) -> str:
        return self.id.namespace

    @property
    def name(self) -> str:
        return self.id.name

    @property
    def phase(self) -> Phase:
        return Phase(self.status.phase or Phase.PENDING)

    @cached_property
    def placement(self) -> Placement | None:
        """GPUs that it holds by its status."""
        return to_placement(self.status.placement) if self.status.placement else None

    @property
    def observed_status(self) -> TrainingJobStatus:
        """The status, with what was observed of the spec."""
        return self.status.model_copy(update={"observed_generation": self.generation, **self.size_requested})

    @property
    def servers(self) -> int:
        """Number of pods of parameter servers that its spec asks for."""
        wanted = self.job.spec.runtime.servers if self.job else None
        return wanted.servers if wanted else 0

    @property
    def is_elastic(self) -> bool:
        """It may be given other numbers of workers while it runs."""
        spec = self.job.spec if self.job else None
        return spec is not None and spec.min_workers is not None and spec.min_workers < spec.workers

    @property
    def size_requested(self) -> dict[str, str | None]:
        """Workers and GPUs that its spec asks for, as the status shows them; None where it cannot be read."""
        if self.job is None:
            return {"workers": None, "gpus": None}
        spec = self.job.spec
        workers = f"{spec.min_workers}-{spec.workers}" if self.is_elastic else str(spec.workers)
        return {"workers": workers, "gpus": format_gpus_of(spec, spec.workers)}

    def size_placed(self, workers: int) -> dict[str, str | None]:
        """The same for a placement of so many workers."""
        return {"workers": str(workers), "gpus": format_gpus_of(self.job.spec, workers) if self.job else None}


def read_job(document: Document) -> JobRecord:
    try:
        job = parse_job(document)
    except DocumentError as error:
        return unreadable_job(document, "; ".join(str(one) for one in error.problems))
    return _record(document, job.status, job=job)


def unreadable_job(document: Document, problem: str) -> JobRecord:
    """Record of a document that has this problem: what it holds by its status still counts."""
    return _record(document, _read_status(document.get("status") or {}), problem=problem)


def _record(
    document: Document, status: TrainingJobStatus, *, job: TrainingJob | None = None, problem: str | None = None
) -> JobRecord:
    metadata = document["metadata"]
    return JobRecord(
        id=JobId(metadata["namespace"], metadata["name"], metadata["uid"]),
        version=version_of(document),
        generation=int(metadata.get("generation") or 0),
        raw_status=document.get("status") or {},
        status=status,
        job=job,
        problem=None if problem is None else plain_text(problem, PROBLEM_CHARS_MAX),
        queue_named=job.spec.queue if job else _queue_named(document.get("spec")),
        deleting="deletionTimestamp" in metadata,
    )


def _queue_named(spec: Any) -> str:
    queue = spec.get("queue") if isinstance(spec, Mapping) else None
    return queue if isinstance(queue, str) and re.fullmatch(DNS_LABEL, queue) else ""


def _read_status(raw: Mapping[str, Any]) -> TrainingJobStatus:
    """An unreadable status counts as none: its pods, by their own annotations, still hold their GPUs."""
    try:
        return TrainingJobStatus.model_validate(raw)
    except Exception:  # whatever is wrong with it: the operator alone writes one
        return TrainingJobStatus()


def format_gpus_of(spec: TrainingJobSpec, workers: int) -> str:
    """GPUs of so many workers: `2 × 0.4`, `4`, `2 × 16Gi`."""
    gpu = spec.gpu
    if gpu.memory_fraction is not None:
        each = show_decimal(gpu.memory_fraction)
    elif gpu.memory is not None:
        each = show_memory(gpu.memory)
    else:
        each = str(gpu.count or 1)
    return each if workers == 1 else f"{workers} × {each}"
