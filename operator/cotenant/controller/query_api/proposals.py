"""Proposals as the core's jobs: a manifest that was not applied, or a waiting job with other fields."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from cotenant import names
from cotenant.api.conversion.job_profiles import meaning_of, with_profile
from cotenant.api.conversion.to_core import parse_job, to_job
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.api.validation.problems import DocumentError
from cotenant.contract.decoding.bounded_json import Bounds, Malformed, parse
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.lifecycle.policies.blocked_start import avoided
from cotenant.controller.query_api.questions import NotFoundError
from cotenant.core.model.objects import Job

BOUNDS: Final = Bounds(bytes_max=256 * 1024, depth_max=32, values_max=20_000)
CHANGES_MAX: Final = 32


class ProposalError(ValueError):
    """The proposal makes no sense. The message names the field."""


def spec_of(body: bytes) -> Mapping[str, Any]:
    """The `spec` of a document of a caller. Raises ProposalError."""
    document = parse(body, BOUNDS)
    if isinstance(document, Malformed):
        raise ProposalError(f"the question {document.reason}")
    spec = document.get("spec") if isinstance(document, dict) else None
    if not isinstance(spec, dict):
        raise ProposalError("the question has no spec: give spec.manifest, or spec.job with spec.change")
    return spec


def proposed_job(
    spec: Mapping[str, Any], namespace: str, *, user: str, cache: ObjectCache, reserve_mib: int, now: float
) -> Job:
    """The job that the question is about, as it would be in this namespace.

    Its claims and the nodes that it avoids restrict its placement, as in production. `reserve_mib` is the memory that
    the operator adds for each worker, `user` the submitter. Raises ProposalError.
    """
    document = _changed(spec, namespace, cache) if "job" in spec else _manifest(spec, namespace, user, now)
    try:
        parsed = parse_job(document)
        record = cache.jobs[f"{namespace}/{spec['job']}"] if "job" in spec else None
        status = record.status if record else TrainingJobStatus()
        same = status.profile is not None and status.profile.name == parsed.spec.profile
        whole = with_profile(parsed, status.profile if same else meaning_of(parsed, cache.profiles.known))
        edited = record is not None and record.job is not None and whole.spec != record.job.spec
        excluded = avoided(status, record.generation + edited if record else 0, now)
        classes = dict(cache.priority_classes)
        job = to_job(whole, priority_classes=classes, excluded_nodes=excluded, reserve_mib=reserve_mib)
        job = cache.volumes.place(job, whole, cache.volumes.mounted(namespace, whole.spec))
    except DocumentError as error:
        raise ProposalError(error.text) from error
    return job


def _manifest(spec: Mapping[str, Any], namespace: str, user: str, now: float) -> dict[str, Any]:
    manifest = spec.get("manifest")
    if not isinstance(manifest, dict) or manifest.get("kind") != "TrainingJob":
        raise ProposalError("spec.manifest is no TrainingJob")
    given = manifest.get("metadata")
    own = given if isinstance(given, dict) else {}
    there = own.get("namespace")
    if there not in (None, namespace):
        raise ProposalError(f"spec.manifest is of namespace {there!r}, and is asked about in {namespace!r}")
    name = own.get("name") or own.get("generateName") or "proposed"
    created = datetime.fromtimestamp(now, UTC).isoformat()
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": "proposed",
        "creationTimestamp": created,
        "generation": 1,
    }
    metadata["annotations"] = {names.ANNOTATION_USER: annotated_user(user)}
    return {key: value for key, value in manifest.items() if key != "status"} | {"metadata": metadata}


def annotated_user(user: str) -> str:
    """User as the chart's policy writes it on submitted objects: all ServiceAccounts of a namespace count as one."""
    parts = user.split(":")
    return f"system:serviceaccount:{parts[2]}:*" if user.startswith("system:serviceaccount:") else user


def _changed(spec: Mapping[str, Any], namespace: str, cache: ObjectCache) -> dict[str, Any]:
    name, change = spec.get("job"), spec.get("change") or {}
    record = cache.jobs.get(f"{namespace}/{name}")
    if record is None:
        raise NotFoundError.of_job(namespace, str(name))
    if record.job is None:
        raise ProposalError(record.problem or "its spec cannot be read")
    if record.placement is not None:
        raise ProposalError(f"{record.key} does not wait: it is {record.phase.value}")
    if not isinstance(change, dict) or len(change) > CHANGES_MAX:
        raise ProposalError(f"spec.change must be an object of at most {CHANGES_MAX} fields by their paths")
    document = copy.deepcopy(record.job.to_document())
    for path, value in change.items():
        write_field(document, str(path), value)
    return {key: value for key, value in document.items() if key != "status"}


def write_field(document: dict[str, Any], path: str, value: object) -> None:
    """Write a value at a path such as `spec.gpu.count`; null removes the field."""
    parts = path.split(".")
    if len(parts) < 2 or parts[0] != "spec" or not all(part.isascii() and part.isalnum() for part in parts):
        raise ProposalError(f"{path!r} is no field of a job's spec, such as spec.gpu.count")
    at = document
    for part in parts[:-1]:
        below = at.setdefault(part, {})
        if not isinstance(below, dict):
            raise ProposalError(f"{path}: {part} has no fields")
        at = below
    if value is None:
        at.pop(parts[-1], None)
    else:
        at[parts[-1]] = value
