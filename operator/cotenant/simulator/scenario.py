"""Reads documents as a scenario: nodes, queues, and jobs with their training times.

The documents are the output of `kubectl get nodes,gpunodes,namespaces,queues,trainingjobs,ctp,tp,priorityclasses -A
-o yaml`, or files of such documents, so a what-if needs no language of its own.
`spec.expectedRuntime` is the true training time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cotenant.api.conversion.job_profiles import Profiles, UnknownProfileError, meaning_of, with_profile
from cotenant.api.conversion.nodes import NodeFacts, to_node, to_node_facts
from cotenant.api.conversion.to_core import (
    parse_cluster_profile,
    parse_gpunode,
    parse_job,
    parse_profile,
    parse_queue,
    to_job,
    to_queue,
    unix_seconds,
)
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.validation.problems import DocumentError
from cotenant.core.model.lifecycle import TERMINAL, Phase
from cotenant.core.model.objects import Job, Node, TenantQueue

Document = Mapping[str, Any]
DEFAULT_RUNTIME_S = 3600
UNKNOWN_MIB = 1 << 30


class ScenarioError(ValueError):
    """The scenario cannot be run. The message names the document and what is missing."""


@dataclass(frozen=True, slots=True)
class Arrival:
    at: float
    job: Job
    train_s: float
    """Seconds of training that the job needs in total."""


@dataclass(frozen=True, slots=True)
class Scenario:
    start: float
    nodes: tuple[Node, ...]
    queues: tuple[TenantQueue, ...]
    arrivals: tuple[Arrival, ...]
    notes: tuple[str, ...] = ()
    """Assumptions about the documents, in sentences."""


def read(documents: Iterable[Document], *, replay: bool = False) -> Scenario:
    """Read the scenario. Raises ScenarioError if there are no GPUs or no jobs, DocumentError for a bad document.

    `replay`: jobs arrive when they were created, and finished jobs run as long as they ran. Otherwise all unfinished
    jobs are there when the simulation starts.
    """
    by_kind = by_kind_of(documents)
    gpu_nodes = gpu_nodes_of(by_kind)
    jobs = [parse_job(document) for document in by_kind.get("TrainingJob", ())]
    created = [unix_seconds(job.metadata.creation_timestamp) or 0.0 for job in jobs]
    start = min(created, default=0.0) if replay else start_of(gpu_nodes, jobs)
    kept = [job for job in jobs if (ran_s(job) if replay else 0) or job.status.phase not in TERMINAL_OR_HELD]
    profiles, classes = profiles_of(by_kind), priority_classes_of(by_kind)
    known = [whole for job in kept if (whole := with_known_profile(job, profiles)) is not None]
    arrivals = tuple(arrival(job, start, classes, replay=replay) for job in known)
    if not arrivals:
        raise ScenarioError("there is no TrainingJob among the documents that still has to run")
    return Scenario(
        start=start,
        nodes=nodes(gpu_nodes, by_kind.get("Node", ()), start_of(gpu_nodes, jobs)),
        queues=queues_of(by_kind),
        arrivals=arrivals,
        notes=(*unknown_profiles(kept, known), *notes_of(jobs, kept, start, replay=replay)),
    )


def read_cluster(documents: Iterable[Document]) -> tuple[tuple[Node, ...], tuple[TenantQueue, ...]]:
    """Read nodes and queues alone. Raises as `read` does, but accepts documents without jobs."""
    by_kind = by_kind_of(documents)
    gpu_nodes = gpu_nodes_of(by_kind)
    return nodes(gpu_nodes, by_kind.get("Node", ()), start_of(gpu_nodes, ())), queues_of(by_kind)


def by_kind_of(documents: Iterable[Document]) -> dict[str, list[Document]]:
    by_kind: dict[str, list[Document]] = {}
    for document in flatten(documents):
        by_kind.setdefault(str(document.get("kind")), []).append(document)
    return by_kind


def gpu_nodes_of(by_kind: Mapping[str, list[Document]]) -> list[GPUNode]:
    found = [parse_gpunode(document) for document in by_kind.get("GPUNode", ())]
    if not found:
        raise ScenarioError("there is no GPUNode among the documents, so there are no GPUs to place jobs on")
    return found


def queues_of(by_kind: Mapping[str, list[Document]]) -> tuple[TenantQueue, ...]:
    labels = {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in by_kind.get("Namespace", ())}
    return tuple(to_queue(parse_queue(item), namespaces=labels) for item in by_kind.get("Queue", ()))


def profiles_of(by_kind: Mapping[str, list[Document]]) -> Profiles:
    own = [parse_profile(item) for item in by_kind.get("TrainingProfile", ())]
    of_cluster = [parse_cluster_profile(item) for item in by_kind.get("ClusterTrainingProfile", ())]
    of_namespaces = {f"{one.metadata.namespace or 'default'}/{one.metadata.name}": one for one in own}
    return Profiles(of_namespaces, {one.metadata.name or "": one for one in of_cluster}, {})


def priority_classes_of(by_kind: Mapping[str, list[Document]]) -> dict[str, int]:
    return {item["metadata"]["name"]: int(item["value"]) for item in by_kind.get("PriorityClass", ())}


def with_known_profile(job: TrainingJob, profiles: Profiles) -> TrainingJob | None:
    """The job with what its profile stood for, as its status says, or else stands for among the documents. None if
    neither is there.
    """
    stood_for = job.status.profile
    if stood_for is not None and stood_for.name == job.spec.profile:
        return with_profile(job, stood_for)
    try:
        return with_profile(job, meaning_of(job, profiles))
    except UnknownProfileError:
        return None


def unknown_profiles(kept: list[TrainingJob], known: list[TrainingJob]) -> tuple[str, ...]:
    left_out = len(kept) - len(known)
    said = f"{left_out} of {len(kept)} jobs name a profile that is not among the documents, and are not simulated"
    return (said,) if left_out else ()


def notes_of(jobs: list[TrainingJob], kept: list[TrainingJob], start: float, *, replay: bool) -> tuple[str, ...]:
    """What the simulation assumes and a reader might not expect."""
    notes = []
    if (over := len(jobs) - len(kept)) > 0:
        notes.append(f"{over} of {len(jobs)} jobs have ended or are suspended, and are not simulated")
    earlier = sum((unix_seconds(job.metadata.creation_timestamp) or start) < start for job in kept)
    if earlier:
        notes.append(
            f"{earlier} of {len(kept)} jobs were created before the time of the documents and wait from the start;"
            " with --replay each arrives when it was created"
        )
    guessed = sum(not (ran_s(job) if replay else 0) and not job.spec.expected_runtime for job in kept)
    told = sum(not (ran_s(job) if replay else 0) and bool(job.spec.expected_runtime) for job in kept)
    if told:
        notes.append(f"{told} of {len(kept)} jobs run exactly as long as their expectedRuntime says")
    if guessed:
        notes.append(f"{guessed} of {len(kept)} jobs declare no expectedRuntime; they run for maxRuntime, or an hour")
    return tuple(notes)


def ran_s(job: TrainingJob) -> int:
    """Seconds for which a finished job ran; 0 if it has not finished or the time is not recorded."""
    over = job.status.phase in {phase.value for phase in TERMINAL}
    return job.status.usage.run_seconds if over and job.status.usage is not None else 0


TERMINAL_OR_HELD = frozenset({phase.value for phase in TERMINAL} | {Phase.SUSPENDED.value, Phase.INVALID.value})


def flatten(documents: Iterable[Document]) -> Iterator[Document]:
    """The documents, with every List replaced by its items."""
    for document in documents:
        if str(document.get("kind", "")).endswith("List") or "items" in document:
            yield from flatten(document.get("items") or ())
        else:
            yield document


def start_of(gpu_nodes: Iterable[GPUNode], jobs: Iterable[TrainingJob]) -> float:
    """The time of the documents: the newest heartbeat, otherwise the newest job."""
    beats = [unix_seconds(node.status.heartbeat) or 0.0 for node in gpu_nodes]
    created = [unix_seconds(job.metadata.creation_timestamp) or 0.0 for job in jobs]
    return max([*beats, *created, 0.0])


def nodes(gpu_nodes: Iterable[GPUNode], documents: Iterable[Document], now: float) -> tuple[Node, ...]:
    """The nodes. A GPUNode without its Node counts as ready, with enough CPU and memory."""
    facts = {fact.name: fact for fact in map(to_node_facts, documents)}
    found = []
    for gpu_node in gpu_nodes:
        name = gpu_node.metadata.name or ""
        fact = facts.get(name)
        if fact is None:
            fact = NodeFacts(name=name, cpu_milli=UNKNOWN_MIB, memory_mib=UNKNOWN_MIB)
        node = to_node(gpu_node, fact, now=now)
        found.append(replace(node, ready=fact.ready))
    return tuple(sorted(found, key=lambda node: node.name))


def arrival(job: TrainingJob, start: float, classes: Mapping[str, int], *, replay: bool = False) -> Arrival:
    try:
        core = to_job(job, priority_classes=classes)
    except DocumentError as error:
        raise ScenarioError(f"TrainingJob {job.key}: {error}") from error
    expected = job.spec.expected_runtime or job.spec.max_runtime or DEFAULT_RUNTIME_S
    train_s = float((ran_s(job) if replay else 0) or expected)
    submitted = core.submitted_at or start
    if replay:
        core = replace(core, placement=None, admitted_at=None, backfilled_until=None, evicting=False, ran_s=0)
    return Arrival(at=max(start, submitted), job=replace(core, submitted_at=submitted), train_s=train_s)
