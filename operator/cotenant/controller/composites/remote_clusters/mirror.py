"""The TrainingJob on the other cluster: whether a job may go there, its document there, and what is read from
it. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cotenant import names
from cotenant.api.conversion.volumes import mounted_objects
from cotenant.api.resources.trainingjobs import Spillover, TrainingJob, TrainingJobSpec
from cotenant.controller.client.kube import Document, version_of
from cotenant.controller.composites.composite import SeenJob
from cotenant.controller.informers.job_record import JobRecord
from cotenant.core.model.lifecycle import HOLDING, TERMINAL

_NAME_KEPT: Final = 41
"""Letters of the job's name that its name there keeps. With a hyphen and eight digits, that is 50 at most."""
_KEY: Final = re.compile(r"[a-z0-9][-a-z0-9]{0,62}/[a-z0-9][-.a-z0-9]{0,252}")
SHOWN: Final = 3
"""At most this many objects of a job are listed in a message."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The cluster and RemoteCluster that the jobs there come from."""

    cluster: str
    """The uid of the namespace kube-system here."""
    remote_cluster: str
    """Name of the RemoteCluster here."""

    @property
    def labels(self) -> dict[str, str]:
        return {names.LABEL_ORIGIN: self.cluster, names.LABEL_ORIGIN_NAME: self.remote_cluster}

    @property
    def selector(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self.labels.items())


@dataclass(frozen=True, slots=True)
class SeenMirror(SeenJob):
    """The job on the other cluster, as last seen."""

    @property
    def version(self) -> int:
        return version_of(self.document)

    @property
    def origin_uid(self) -> str:
        """The uid of the job here."""
        return str((self.document["metadata"].get("labels") or {}).get(names.LABEL_ORIGIN_JOB, ""))

    @property
    def origin_key(self) -> str:
        """`namespace/name` of the job here. Empty if the annotation has no such form: tenants there may write it, and
        it becomes part of an address.
        """
        said = str((self.document["metadata"].get("annotations") or {}).get(names.ANNOTATION_ORIGIN, ""))
        return said if _KEY.fullmatch(said) else ""

    @property
    def is_deleting(self) -> bool:
        return "deletionTimestamp" in self.document["metadata"]

    @property
    def is_released(self) -> bool:
        return names.ANNOTATION_RELEASED in (self.document["metadata"].get("annotations") or {})

    @property
    def holds(self) -> bool:
        """True if it has GPUs or pods there."""
        placed = bool(self.raw_status.get("placement"))
        return self.phase in HOLDING or (placed and self.phase not in TERMINAL)


def mirror_name(record: JobRecord) -> str:
    """Name of the job there. It follows from the job here alone, so a second creation finds the first, and it meets no
    name of somebody else.
    """
    digest = hashlib.sha256(record.uid.encode()).hexdigest()[:8]
    return f"{record.name[:_NAME_KEPT].rstrip('-')}-{digest}"


def mirror_document(record: JobRecord, job: TrainingJob, origin: Origin, *, queue: str, pass_users: bool) -> Document:
    """The job there, suspended. `queue` is the queue there."""
    annotations = {names.ANNOTATION_ORIGIN: record.key}
    user = job.metadata.annotations.get(names.ANNOTATION_USER)
    if pass_users and user:
        annotations[names.ANNOTATION_USER] = user
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {
            "name": mirror_name(record),
            "labels": {**origin.labels, names.LABEL_ORIGIN_JOB: record.uid},
            "annotations": annotations,
        },
        "spec": _spec(record, job.spec) | {"queue": queue, "suspend": True},
    }


def _spec(record: JobRecord, spec: TrainingJobSpec) -> dict[str, Any]:
    """The spec as written. A profile is replaced by what it was filled in with, because its name may mean something
    else there.
    """
    written = dict(record.raw_spec) if spec.profile is None else spec.to_document()
    for own in ("profile", "ttlAfterFinished", "spillover"):  # what follows its end is decided here
        written.pop(own, None)
    if spec.checkpoint is not None and spec.checkpoint.volume is not None and spec.checkpoint.path is None:
        written["checkpoint"] = {**written["checkpoint"], "path": record.name}  # by default it is the job's name
    return written


def travel_problem(job: TrainingJob, remote: str) -> str:
    """Why the job stays here although its queue names another cluster; empty if it may go."""
    if names.LABEL_ORIGIN in job.metadata.labels:
        return "it came from another cluster itself"
    for owner in job.metadata.owner_references:
        if owner.get("apiVersion") in names.API_VERSIONS:
            return f"it belongs to the {owner.get('kind')} {owner.get('name')}, which works with it here"
    named = list(dict.fromkeys(_named_objects(job.spec))) if job.spec.spillover is Spillover.AUTO else []
    if not named:
        return ""
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return (
        f"it names {', '.join(named[:SHOWN])}{more} of its namespace, which cluster {remote} may not have; if objects"
        " of the same names are there, write spec.spillover: Always"
    )


def _named_objects(spec: TrainingJobSpec) -> Iterator[str]:
    for kind, name in mounted_objects(spec):
        yield f"{'claim' if kind == 'PersistentVolumeClaim' else kind} {name}"
    for variable in spec.runtime.env:
        source = variable.value_from
        if source is not None and source.secret_key_ref is not None:
            yield f"Secret {source.secret_key_ref.name}"
        if source is not None and source.config_map_key_ref is not None:
            yield f"ConfigMap {source.config_map_key_ref.name}"
    for secret in spec.runtime.image_pull_secrets:
        yield f"Secret {secret.name}"
