"""Kueue's scenario of its scheduler's performance test: cohorts of queues, and the workloads that arrive at each.

Read from the file that Kueue keeps (`test/performance/scheduler/configs/*/generator.yaml`), which is given by its path.
A cohort becomes a Queue without jobs of its own, a ClusterQueue a Queue below it, a workload a job of one worker with
as many GPUs as the workload has CPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cotenant import names


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSet:
    """Workloads of one kind that arrive at a queue, one after the other."""

    kind: str
    count: int
    every_s: float
    run_s: float
    priority: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioQueue:
    name: str
    cohort: str
    guaranteed: int
    limit: int
    sets: tuple[WorkloadSet, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    name: str
    """Of the job."""
    at_s: float
    """From the beginning."""
    queue: str
    of: WorkloadSet


def read(path: Path, share: float = 1.0) -> list[ScenarioQueue]:
    """The queues of a generator's file; of each set of workloads this share, at least one. Raises SystemExit."""
    document = yaml.safe_load(path.read_text())
    if "topology" in document:
        raise SystemExit(f"{path}: scenarios with a topology are not played; take configs/baseline or large-scale")
    return [
        ScenarioQueue(
            name=f"{cohort}-{of_queues['className']}-{number}",
            cohort=cohort,
            guaranteed=int(of_queues["nominalQuota"]),
            limit=int(of_queues["nominalQuota"]) + int(of_queues["borrowingLimit"]),
            sets=tuple(_sets(of_queues["workloadsSets"], share)),
        )
        for of_cohorts in document["cohorts"]
        for cohort in (f"{of_cohorts['className']}-{number}" for number in range(of_cohorts["count"]))
        for of_queues in of_cohorts["queuesSets"]
        for number in range(of_queues["count"])
    ]


def _sets(given: list[dict[str, Any]], share: float) -> Iterator[WorkloadSet]:
    for one in given:
        for workload in one["workloads"]:
            yield WorkloadSet(
                kind=workload["className"],
                count=max(1, round(int(one["count"]) * share)),
                every_s=one["creationIntervalMs"] / 1000,
                run_s=workload["runtimeMs"] / 1000,
                priority=workload["priority"],
                gpus=int(workload["request"]),
            )


def queue_documents(queues: list[ScenarioQueue], namespace: str) -> list[dict[str, Any]]:
    """Parents first. A cohort lends what its queues have, and no more."""
    cohorts: dict[str, int] = {}
    for queue in queues:
        cohorts[queue.cohort] = cohorts.get(queue.cohort, 0) + queue.guaranteed
    parents = [_queue(name, {"quotas": [{"guaranteed": total, "limit": total}]}) for name, total in cohorts.items()]
    return parents + [
        _queue(
            queue.name,
            {
                "parent": queue.cohort,
                "namespaces": [namespace],
                "quotas": [{"guaranteed": queue.guaranteed, "limit": queue.limit}],
            },
        )
        for queue in queues
    ]


def _queue(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def arrivals(queues: list[ScenarioQueue]) -> list[Arrival]:
    """All jobs, by the time at which they arrive: every set begins at once, as in Kueue's generator."""
    found = [
        Arrival(name=f"{queue.name}-{of.kind}-{number}", at_s=number * of.every_s, queue=queue.name, of=of)
        for queue in queues
        for of in queue.sets
        for number in range(of.count)
    ]
    return sorted(found, key=lambda arrival: arrival.at_s)


def job(arrival: Arrival, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": arrival.name, "namespace": namespace},
        "spec": {
            "queue": arrival.queue,
            "priority": arrival.of.priority,
            "workers": 1,
            "gpu": {"count": arrival.of.gpus},
            "resources": {"cpu": "100m", "memory": "64Mi"},
            "runtime": {"entrypoint": "train:main"},
        },
    }
