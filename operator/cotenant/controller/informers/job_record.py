"""A TrainingJob as last seen, decoded once, in the form that the whole controller uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from pydantic import ValidationError

from cotenant import contract, names
from cotenant.api.conversion.job_profiles import NO_PROFILES, Profiles, UnknownProfileError, meaning_of, with_profile
from cotenant.api.conversion.placements import to_placement
from cotenant.api.conversion.to_core import parse_job, requeued_at, unix_seconds
from cotenant.api.resources.object_meta import ObjectMeta
from cotenant.api.resources.trainingjob_status import ProfileStatus, TrainingJobStatus
from cotenant.api.resources.trainingjobs import TrainingJob, TrainingJobSpec
from cotenant.api.scalars.fields import DNS_LABEL
from cotenant.api.scalars.quantities import show_memory, show_mib
from cotenant.api.validation.problems import DocumentError
from cotenant.contract.decoding.plain_text import plain_text
from cotenant.controller.client.kube import Document, version_of
from cotenant.controller.informers.status_reading import StatusRead, read_status
from cotenant.core.model.formatting import format_gpus
from cotenant.core.model.lifecycle import TERMINAL, Phase
from cotenant.core.model.objects import JobKey, Placement

PROBLEM_CHARS_MAX: Final = 2000
RESTORED: Final = "Restored"
"""Reason of a job that came back from a backup without its status, and waits until somebody resumes it."""
STATUS_UNREADABLE: Final = "StatusUnreadable"
"""Reason of a job that is left alone because its status cannot be read."""


@dataclass(frozen=True, slots=True, order=True)
class JobId:
    """One TrainingJob. Earlier and later jobs of the same name have other ids."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> JobKey:
        """The core's name of the job. A later job of the same name has it too."""
        return f"{self.namespace}/{self.name}"

    @property
    def owner(self) -> tuple[str, str]:
        """(namespace, uid): the key of its pods. A uid alone may be written into any pod of the cluster."""
        return self.namespace, self.uid

    def __str__(self) -> str:
        return self.key


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """One TrainingJob as last seen. If its spec cannot be read, `job` is None, and `problem` has the reason."""

    id: JobId
    version: int
    generation: int
    raw_spec: Mapping[str, Any]
    raw_status: Mapping[str, Any]
    status: TrainingJobStatus
    job: TrainingJob | None
    problem: str | None = None
    profile_missing: bool = False
    """True if the problem is that its profile does not exist: the job waits for it."""
    status_problem: str | None = None
    """Why the status cannot be read, as one of a newer release. Nothing is done about the job."""
    status_read: TrainingJobStatus = field(default_factory=TrainingJobStatus)
    """The status as read, before anything was added to it."""
    queue_named: str = ""
    """Queue in its spec, even if the rest cannot be read; empty if there is none."""
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
        if self.status_problem and self.status.phase is None and self.status.placement:
            return Phase.RUNNING
        return Phase(self.status.phase or Phase.PENDING)

    @property
    def is_away(self) -> bool:
        """True if it was handed to another cluster and is not over: nothing of it may start here."""
        return self.status.cluster is not None and self.phase not in TERMINAL

    @property
    def waits_away(self) -> bool:
        """True if it has no GPUs on the other cluster, as far as is known. Then it waits here too."""
        cluster = self.status.cluster
        return cluster is not None and self.phase is Phase.PENDING and cluster.returning is None

    @property
    def waits_since(self) -> float | None:
        """Unix seconds since when a job that waits holds nothing and is not suspended; None if that is unknown."""
        made = self.job.metadata.creation_timestamp if self.job is not None else None
        return requeued_at(self.status) or unix_seconds(made)

    @property
    def awaits_word(self) -> bool:
        """True if it came back from a backup without its status: it may have ended, so it starts only if somebody
        resumes it.
        """
        labels = (self.job.metadata.labels if self.job else None) or {}
        restored = names.LABEL_VELERO_RESTORE in labels
        return restored and (self.status.phase is None or self.status.reason == RESTORED)

    @cached_property
    def written(self) -> Mapping[str, Any]:
        """The stored status, as far as this release knows its fields and words."""
        read = self.status_read.to_document()
        return {field: value for field, value in read.items() if field in self.raw_status}

    @cached_property
    def placement(self) -> Placement | None:
        """GPUs that it holds by its status."""
        return to_placement(self.status.placement) if self.status.placement else None

    @property
    def observed_status(self) -> TrainingJobStatus:
        """The status, with what was observed of the spec."""
        return self.status.model_copy(update={"observed_generation": self.generation, **self.size_requested})

    @property
    def profile_unwritten(self) -> bool:
        """True if what its profile stands for is not in its status yet."""
        written = self.raw_status.get("profile") or {}
        return bool(written.get("name") != (self.status.profile.name if self.status.profile else None))

    @property
    def servers(self) -> int:
        """Number of pods of parameter servers that its spec asks for."""
        wanted = self.job.spec.runtime.servers if self.job else None
        return wanted.servers if wanted else 0

    @property
    def is_elastic(self) -> bool:
        """True if its number of workers may change while it runs."""
        spec = self.job.spec if self.job else None
        return spec is not None and spec.min_workers is not None and spec.min_workers < spec.workers

    @property
    def may_have_token(self) -> bool:
        """True if its last attempt may have had a token, for Ray or for its parameter servers."""
        placed = self.status.placement
        if self.job is None or placed is None:
            return True
        return contract.needs_ray(self.job.spec.runtime.mode, placed.workers) or bool(placed.servers)

    @property
    def size_requested(self) -> dict[str, str | None]:
        """Workers and GPUs that its spec asks for, as the status shows them; None if they cannot be read."""
        if self.job is None:
            return {"workers": None, "gpus": None}
        spec = self.job.spec
        workers = f"{spec.min_workers}-{spec.workers}" if self.is_elastic else str(spec.workers)
        return {"workers": workers, "gpus": format_gpus_of(spec, spec.workers)}

    def size_placed(self, placement: Placement) -> dict[str, str | None]:
        """The same for a placement."""
        workers = placement.workers
        shown = format_gpus_of(self.job.spec, workers, placement) if self.job else None
        return {"workers": str(workers), "gpus": shown}


def read_job(document: Document, profiles: Profiles = NO_PROFILES, seen: JobRecord | None = None) -> JobRecord:
    """The job, with what its profile stood for when the job was first seen.

    That is in its status, or in `seen`, the record of an earlier version whose status may not have been written yet;
    otherwise the profile is read now. If the spec is the same as in `seen`, it is not read again, because most changes
    of a job are changes of its status.
    """
    document = _without_managed_fields(document)
    read = read_status(document.get("status") or {})
    try:
        job = _with_spec_of(seen, document) or parse_job(document | {"status": {}})
    except DocumentError as error:
        return _record(document, read, problem=error.text)
    job = job.model_copy(update={"status": read.status})
    try:
        whole = with_profile(job, _recorded(job, seen) or meaning_of(job, profiles))
    except DocumentError as error:
        missing = isinstance(error, UnknownProfileError)
        return _record(document, read, problem=error.text, profile_missing=missing)
    return _record(document, read, job=whole)


def _without_managed_fields(document: Document) -> Document:
    """The document without the record of who wrote which field, which often takes more than half of it."""
    metadata = document["metadata"]
    if "managedFields" not in metadata:
        return document
    return document | {"metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _with_spec_of(seen: JobRecord | None, document: Document) -> TrainingJob | None:
    """The job with the spec that was read before; None if it has to be read, or an error has to be reported."""
    if seen is None or seen.job is None or seen.job.spec.profile is not None:
        return None
    metadata = document["metadata"]
    if seen.uid != metadata["uid"] or seen.raw_spec != document.get("spec"):
        return None
    try:
        parsed = ObjectMeta.model_validate(metadata)
    except ValidationError:
        return None
    return seen.job.model_copy(update={"metadata": parsed})


def _recorded(job: TrainingJob, seen: JobRecord | None) -> ProfileStatus | None:
    """What its profile stood for, if that is the profile that it names now."""
    known = [job.status.profile]
    if seen is not None and seen.uid == job.metadata.uid:
        known.append(seen.status.profile)
    return next((one for one in known if one is not None and one.name == job.spec.profile), None)


def unreadable_job(document: Document, problem: str) -> JobRecord:
    """Record of a document with this problem. What it holds by its status still counts."""
    try:
        read = read_status(document.get("status") or {})
    except Exception as error:  # whatever is wrong with it
        read = StatusRead(TrainingJobStatus(), f"status: {type(error).__name__}")
    return _record(document, read, problem=problem)


def _record(
    document: Document,
    read: StatusRead,
    *,
    job: TrainingJob | None = None,
    problem: str | None = None,
    profile_missing: bool = False,
) -> JobRecord:
    metadata = document["metadata"]
    return JobRecord(
        id=JobId(metadata["namespace"], metadata["name"], metadata["uid"]),
        version=version_of(document),
        generation=int(metadata.get("generation") or 0),
        raw_spec=document.get("spec") or {},
        raw_status=document.get("status") or {},
        status=job.status if job else read.status,
        status_problem=None if read.problem is None else plain_text(read.problem, PROBLEM_CHARS_MAX),
        status_read=read.status,
        job=job,
        problem=None if problem is None else plain_text(problem, PROBLEM_CHARS_MAX),
        profile_missing=profile_missing,
        queue_named=job.spec.queue if job else _queue_named(document.get("spec")),
        deleting="deletionTimestamp" in metadata,
    )


def _queue_named(spec: Any) -> str:
    queue = spec.get("queue") if isinstance(spec, Mapping) else None
    return queue if isinstance(queue, str) and re.fullmatch(DNS_LABEL, queue) else ""


def format_gpus_of(spec: TrainingJobSpec, workers: int, placement: Placement | None = None) -> str:
    """GPUs of so many workers: `2 × 0.4`, `4`, `2 × 16Gi`.

    With `autoSize`, the placement's share. Shares of several GPUs are counted together: 2 workers of 2 × 0.4 are `4 ×
    0.4`.
    """
    gpu = spec.gpu
    shares = workers * (gpu.count or 1) if gpu.is_share else workers
    if gpu.memory_fraction is not None:
        each = format_gpus(gpu.memory_fraction)
    elif gpu.auto_size and placement is not None and placement.nodes[0].ranks[0].gpus:
        each = show_mib(placement.nodes[0].ranks[0].gpus[0].memory_mib)
    elif gpu.memory is not None:
        each = show_memory(gpu.memory)
    else:
        each = str(gpu.count or 1)
    return each if shares == 1 else f"{shares} × {each}"
