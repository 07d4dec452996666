"""Documents → what comes when: nodes, queues, and jobs with the time that they would train.

A scenario is what `kubectl get nodes,gpunodes,namespaces,queues,trainingjobs -A -o yaml` prints, or files of the same
documents, so that a what-if needs no language of its own. `spec.expectedRuntime` is how long a job really trains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cotenant.api.conversion.nodes import NodeFacts, to_node, to_node_facts
from cotenant.api.conversion.to_core import parse_gpunode, parse_job, parse_queue, to_job, to_queue, unix_seconds
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.validation.errors import DocumentError
from cotenant.core.model.lifecycle import TERMINAL, Phase
from cotenant.core.model.objects import Job, Node, TenantQueue

Document = Mapping[str, Any]
DEFAULT_RUNTIME_S = 3600
UNKNOWN_MIB = 1 << 30


class ScenarioError(ValueError):
    """The scenario cannot be played; the message names the document and what is missing."""


@dataclass(frozen=True, slots=True)
class Arrival:
    at: float
    job: Job
    train_s: float
    """Seconds of training that the job needs in all."""


@dataclass(frozen=True, slots=True)
class Scenario:
    start: float
    nodes: tuple[Node, ...]
    queues: tuple[TenantQueue, ...]
    arrivals: tuple[Arrival, ...]


def read(documents: Iterable[Document]) -> Scenario:
    """Raises ScenarioError when there are no GPUs or no jobs, DocumentError for a bad document."""
    by_kind: dict[str, list[Document]] = {}
    for document in flatten(documents):
        by_kind.setdefault(str(document.get("kind")), []).append(document)
    gpu_nodes = [parse_gpunode(document) for document in by_kind.get("GPUNode", ())]
    if not gpu_nodes:
        raise ScenarioError("there is no GPUNode among the documents, so there are no GPUs to place jobs on")
    jobs = [parse_job(document) for document in by_kind.get("TrainingJob", ())]
    start = start_of(gpu_nodes, jobs)
    arrivals = tuple(arrival(job, start) for job in jobs if job.status.phase not in TERMINAL_OR_HELD)
    if not arrivals:
        raise ScenarioError("there is no TrainingJob among the documents that still has to run")
    labels = {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in by_kind.get("Namespace", ())}
    return Scenario(
        start=start,
        nodes=nodes(gpu_nodes, by_kind.get("Node", ()), start),
        queues=tuple(to_queue(parse_queue(item), namespaces=labels) for item in by_kind.get("Queue", ())),
        arrivals=arrivals,
    )


TERMINAL_OR_HELD = frozenset({phase.value for phase in TERMINAL} | {Phase.SUSPENDED.value, Phase.INVALID.value})


def flatten(documents: Iterable[Document]) -> Iterator[Document]:
    """A List counts as its items."""
    for document in documents:
        if str(document.get("kind", "")).endswith("List") or "items" in document:
            yield from flatten(document.get("items") or ())
        else:
            yield document


def start_of(gpu_nodes: Iterable[GPUNode], jobs: Iterable[TrainingJob]) -> float:
    """The moment of the documents: the newest heartbeat, or else the newest job."""
    beats = [unix_seconds(node.status.heartbeat) or 0.0 for node in gpu_nodes]
    created = [unix_seconds(job.metadata.creation_timestamp) or 0.0 for job in jobs]
    return max([*beats, *created, 0.0])


def nodes(gpu_nodes: Iterable[GPUNode], documents: Iterable[Document], now: float) -> tuple[Node, ...]:
    """A GPUNode whose Node is not among the documents counts as ready, with CPU and memory enough."""
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


def arrival(job: TrainingJob, start: float) -> Arrival:
    try:
        core = to_job(job)
    except DocumentError as error:
        raise ScenarioError(f"TrainingJob {job.key}: {error}") from error
    train_s = float(job.spec.expected_runtime or job.spec.max_runtime or DEFAULT_RUNTIME_S)
    submitted = core.submitted_at or start
    return Arrival(at=max(start, submitted), job=replace(core, submitted_at=submitted), train_s=train_s)
