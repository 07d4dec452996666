"""Documents → core values. The core has no dicts and no texts for amounts.

The parsers raise `DocumentError`, which names every field that is wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from cotenant import names
from cotenant.api.advice.answers import answered
from cotenant.api.conversion.placements import to_placement
from cotenant.api.resources.bookings import Booking
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.api.resources.job_spec.machine import GpuSpec
from cotenant.api.resources.job_spec.runtime import Collective, Resources
from cotenant.api.resources.queues import EVERY_USER, Queue, QueueSpec, QuotaSpec
from cotenant.api.resources.quota_requests import QuotaRequest
from cotenant.api.resources.remote_clusters import RemoteCluster
from cotenant.api.resources.sessions.session import Session
from cotenant.api.resources.sweeps.sweep import Sweep
from cotenant.api.resources.training_profiles import ClusterTrainingProfile, TrainingProfile
from cotenant.api.resources.trainingjob_status import GPU_IDLE, LOW_USE, TrainingJobStatus
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.scalars.quantities import mib_down, mib_up
from cotenant.api.validation.problems import DocumentError, Problem
from cotenant.api.validation.rules import Model
from cotenant.core.model import objects as core
from cotenant.core.model.lifecycle import HOLDING, Phase
from cotenant.core.quota.budget import NOTHING_SPENT, BudgetStanding, left

Document = Mapping[str, Any]
SERVICE_ACCOUNT = "system:serviceaccount:"
"""Prefix of the names of ServiceAccounts: `system:serviceaccount:<namespace>:<name>`."""
MAX_USER = 128
"""Letters of a user's name that are kept unchanged."""
_Parsed = TypeVar("_Parsed", bound=Model)


def parse(kind: type[_Parsed], document: Document) -> _Parsed:
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        problems = answered(error, kind)
    except UnicodeEncodeError as error:  # a text out of YAML with half of a surrogate pair
        odd = error.object[error.start : error.end]
        problems = (Problem("", f"holds {odd!a}, which is no character of UTF-8"),)
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    raise DocumentError(problems, f"{kind.__name__} {name or '(without a name)'}")


parse_job: Final = partial(parse, TrainingJob)
parse_queue: Final = partial(parse, Queue)
parse_quota_request: Final = partial(parse, QuotaRequest)
parse_booking: Final = partial(parse, Booking)
parse_remote_cluster: Final = partial(parse, RemoteCluster)
parse_sweep: Final = partial(parse, Sweep)
parse_profile: Final = partial(parse, TrainingProfile)
parse_cluster_profile: Final = partial(parse, ClusterTrainingProfile)
parse_gpunode: Final = partial(parse, GPUNode)
parse_session: Final = partial(parse, Session)


def to_job(
    job: TrainingJob,
    *,
    priority_classes: Mapping[str, int] | None = None,
    excluded_nodes: frozenset[str] = frozenset(),
    reserve_mib: int = 0,
) -> core.Job:
    """Job of the core. `priority_classes` is name → priority. Raises `DocumentError` for a class that is not among
    them. `reserve_mib`: memory of the node that the operator adds for each rank.
    """
    spec, status, metadata = job.spec, job.status, job.metadata
    phase = status.phase or Phase.PENDING
    placement = to_placement(status.placement) if status.placement is not None and phase in HOLDING else None
    checkpoint = status.progress.last_checkpoint if status.progress else None
    return core.Job(
        key=job.key,
        uid=metadata.uid,
        namespace=metadata.namespace or "default",
        queue=spec.queue,
        user=user_of(metadata.annotations.get(names.ANNOTATION_USER, ""), metadata.namespace or "default"),
        priority=_priority(job, priority_classes or {}),
        priority_class=spec.priority_class_name or "",
        workers_min=spec.min_workers or spec.workers,
        workers_max=spec.workers,
        gpu=sized(to_gpu_request(spec.gpu), status, placement) if spec.gpu.auto_size else to_gpu_request(spec.gpu),
        asked_memory_mib=mib_up(spec.gpu.memory) if spec.gpu.auto_size and spec.gpu.memory is not None else None,
        cpu_milli=spec.resources.cpu,
        memory_mib=mib_up(spec.resources.memory) + reserve_mib,
        scratch_mib=_scratch_mib(spec.resources),
        chief_cpu_milli=spec.chief_resources.cpu if spec.chief else None,
        chief_memory_mib=mib_up(spec.chief_resources.memory) + reserve_mib if spec.chief else None,
        chief_scratch_mib=_scratch_mib(spec.chief_resources) if spec.chief else None,
        added_memory_mib=reserve_mib,
        topology=core.Topology(spec.topology.level, spec.topology.mode) if spec.topology else None,
        spread=core.Spread(spec.spread.level, spec.spread.mode, spec.spread.max_workers or 1) if spec.spread else None,
        distinct_gpus=spec.runtime.collective is not Collective.GLOO,
        submitted_at=unix_seconds(metadata.creation_timestamp) or 0.0,
        requeued_at=requeued_at(status) if placement is None else None,
        placement=placement,
        admitted_at=admitted_at(status) if placement else None,
        backfilled_until=unix_seconds(status.placement.backfilled_until) if placement and status.placement else None,
        last_checkpoint_at=unix_seconds(checkpoint.at) if checkpoint else None,
        ran_s=status.usage.run_seconds if status.usage else 0,
        expected_runtime_s=spec.expected_runtime,
        max_runtime_s=spec.max_runtime,
        excluded_nodes=excluded_nodes,
        evicting=placement is not None and phase is Phase.EVICTING,
        idle=placement is not None and phase is Phase.RUNNING and computes_nothing(status),
    )


def _scratch_mib(resources: Resources) -> int:
    return 0 if resources.scratch is None else mib_up(resources.scratch)


def sized(gpu: core.GpuRequest, status: TrainingJobStatus, placement: core.Placement | None) -> core.GpuRequest:
    """The request with as much memory as it holds, or as is suggested for its next attempt; never more than it asks
    for.
    """
    if gpu.memory_mib is None:
        return gpu
    if placement is not None:
        held = [grant.memory_mib for node in placement.nodes for rank in node.ranks for grant in rank.gpus]
        return replace(gpu, memory_mib=min([gpu.memory_mib, *held]))
    suggested = status.suggestion.memory_mib if status.suggestion else 0
    return replace(gpu, memory_mib=min(gpu.memory_mib, suggested)) if suggested > 0 else gpu


def computes_nothing(status: TrainingJobStatus) -> bool:
    """True if the job holds GPUs and was measured to leave them idle."""
    said = ((one.type, one.status, one.reason) for one in status.conditions)
    return (LOW_USE, "True", GPU_IDLE) in said


def admitted_at(status: TrainingJobStatus) -> float | None:
    """Unix seconds since when the job holds its GPUs; None if it holds none."""
    return None if status.placement is None else unix_seconds(status.placement.admitted_at)


def requeued_at(status: TrainingJobStatus) -> float | None:
    """When the job last began to wait, after a run or a resume; None if it has waited since it was made."""
    ended = {"Suspended"} | ({"Admitted"} if status.attempts else set())
    moments = [
        unix_seconds(one.last_transition_time)
        for one in status.conditions
        if one.type in ended and one.status == "False"
    ]
    return max((at for at in moments if at is not None), default=None)


def user_of(named: str, namespace: str) -> str:
    """User whose limits count the job, as printable text. `named` is the annotation's value.

    All ServiceAccounts of a namespace count as one user, because a tenant may make any number of them. So do all jobs
    of a namespace without a user, which an admission policy no longer accepts.
    """
    if not named:
        return f"(nobody named, namespace {namespace})"
    if named.startswith(SERVICE_ACCOUNT):
        named = ":".join([*named.split(":")[:3], "*"])
    readable = "".join(letter if letter.isprintable() else "?" for letter in named)
    if len(readable) <= MAX_USER:
        return readable
    return f"{readable[:MAX_USER]}… ({hashlib.sha256(named.encode(errors='replace')).hexdigest()[:16]})"


def to_gpu_request(spec: GpuSpec) -> core.GpuRequest:
    return core.GpuRequest(
        count=spec.count or 1,
        memory_mib=None if spec.memory is None else mib_up(spec.memory),
        memory_milli=spec.memory_fraction,
        compute_milli=spec.compute_fraction,
        classes=spec.classes,
        zones=spec.zones,
        sharing=spec.sharing,
    )


def _priority(job: TrainingJob, classes: Mapping[str, int]) -> int:
    name = job.spec.priority_class_name
    if name is None:
        return job.spec.priority or 0
    if name not in classes:
        raise DocumentError(
            [Problem("spec.priorityClassName", f"there is no PriorityClass {name!r} in this cluster")],
            f"TrainingJob {job.metadata.name}",
        )
    return classes[name]


def to_queue(
    queue: Queue,
    *,
    namespaces: Mapping[str, Mapping[str, str]],
    standing: BudgetStanding = NOTHING_SPENT,
    labelled_only: bool = False,
) -> core.TenantQueue:
    """Queue of the core. `namespaces` maps the name of every namespace to its labels; `standing` is its budget in this
    period.

    With `labelled_only` it serves only namespaces with the label of a tenant.
    """
    spec = queue.spec
    chosen = served_namespaces(spec, namespaces)
    unlabelled = frozenset(name for name in chosen if labelled_only and not _is_tenants(namespaces.get(name, {})))
    hours, money = (spec.budget.gpu_hours, spec.budget.money) if spec.budget else (None, None)
    return core.TenantQueue(
        name=queue.metadata.name or "",
        parent=spec.parent,
        namespaces=chosen - unlabelled,
        unlabelled=unlabelled,
        weight=spec.weight,
        quotas=tuple(
            core.Quota(
                gpu_class=line.gpu_class,
                zone=line.zone,
                guaranteed=line.guaranteed,
                lendable=line.lendable,
                **_limits(line),
            )
            for line in spec.quotas
            if line.user is None
        ),
        user_limit=spec.users.limit if spec.users else None,
        user_limits=tuple(_user_limit(line) for line in spec.quotas if line.user is not None),
        max_priority=spec.max_priority,
        min_priority=spec.min_priority,
        pending=core.PendingBounds(
            jobs=spec.max_pending.jobs, workers=spec.max_pending.workers, milli=spec.max_pending.gpus
        ),
        budget_left=None if hours is None else left(hours * 3600, standing.carried, standing.spent),
        budget=None if hours is None else hours * 3600 + standing.carried,
        budget_until=standing.until,
        money_left=None if money is None else left(money, standing.money_carried, standing.money_spent),
        money=None if money is None else money + standing.money_carried,
        currency=standing.currency,
        consolidation=spec.consolidation == "Allowed",
        protected_runtime_s=spec.protected_runtime or 0,
        hold=spec.hold or "",
        half_life_s=spec.fair_share.half_life if spec.fair_share else None,
        order=spec.fair_share.order if spec.fair_share else core.TimeOrder.AGE,
    )


def _user_limit(line: QuotaSpec) -> core.UserLimit:
    return core.UserLimit(
        user=None if line.user == EVERY_USER else line.user,
        gpu_class=line.gpu_class,
        zone=line.zone,
        **_limits(line),
    )


def _limits(line: QuotaSpec) -> dict[str, int | None]:
    """Limits of a line, of a queue or of a user."""
    memory = None if line.memory_limit is None else mib_down(line.memory_limit)
    return {"limit": line.limit, "memory_limit_mib": memory}


def _is_tenants(labels: Mapping[str, str]) -> bool:
    return labels.get(names.LABEL_TENANT) == "true"


def served_namespaces(spec: QueueSpec, namespaces: Mapping[str, Mapping[str, str]]) -> frozenset[str]:
    """Namespaces of a queue: named ones even if they do not exist yet, selected ones if they exist."""
    selector = spec.namespace_selector
    chosen = () if selector is None else (name for name, labels in namespaces.items() if selector.matches(dict(labels)))
    return frozenset(spec.namespaces) | frozenset(chosen)


def unix_seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
