"""A TrainingJob as last seen, decoded once: what everything in the controller that speaks of a job is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from cotenant.api.conversion.to_core import parse_job
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.validation.errors import DocumentError
from cotenant.controller.client.kube import Document, key_of, version_of
from cotenant.core.model.objects import JobKey


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One TrainingJob as last seen. `job` is None when its spec cannot be read, and `problem` says why."""

    key: JobKey
    uid: str
    version: int
    generation: int
    raw_status: Mapping[str, Any]
    status: TrainingJobStatus
    job: TrainingJob | None
    problem: str = ""
    deleting: bool = False

    @property
    def namespace(self) -> str:
        return self.key.split("/", 1)[0]

    @property
    def name(self) -> str:
        return self.key.split("/", 1)[1]

    @property
    def servers(self) -> int:
        """How many pods of parameter servers its spec asks for."""
        wanted = self.job.spec.runtime.servers if self.job else None
        return wanted.servers if wanted else 0


def read_job(document: Document) -> JobRecord:
    metadata, raw_status = document["metadata"], document.get("status") or {}
    job: TrainingJob | None = None
    problem = ""
    try:
        job = parse_job(document)
        status = job.status
    except DocumentError as error:
        problem = "; ".join(str(one) for one in error.problems)
        status = _read_status(raw_status)
    return JobRecord(
        key=key_of(metadata),
        uid=metadata["uid"],
        version=version_of(document),
        generation=int(metadata.get("generation") or 0),
        raw_status=raw_status,
        status=status,
        job=job,
        problem=problem,
        deleting="deletionTimestamp" in metadata,
    )


def _read_status(raw: Mapping[str, Any]) -> TrainingJobStatus:
    """An unreadable status counts as none: its pods, by their own annotations, still hold their GPUs."""
    try:
        return TrainingJobStatus.model_validate(raw)
    except ValidationError:
        return TrainingJobStatus()
