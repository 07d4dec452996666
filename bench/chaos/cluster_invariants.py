"""Invariants of a whole cluster under faults, checked on observations through the API server.

A violation is a sentence. Some states are allowed for a limited time only: their onset is remembered. An API server
that does not answer violates nothing; that observation is left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.chaos.cluster_jobs import LIMIT, RIGHT
from cotenant import names
from cotenant_local.host.api_client import Api

Document = dict[str, Any]
JOBS = f"/apis/{names.API_VERSION}/trainingjobs"
ADMITTED = {"Starting", "Running", "Evicting"}
TERMINAL = {"Succeeded", "Failed", "Invalid"}
OWN_FAULTS = {
    "UserError",
    "OutOfMemory",
    "OutOfGPUMemory",
    "ExitedEarly",
    "HungCollective",
    "Stalled",
    "Quota",
    "BadContract",
}
"""Reasons that blame a program; the programs of a fault run do nothing wrong."""
UNEXPLAINED_S = 30.0
"""Longest time in which a job that does not run has no message."""
LEFTOVER_S = 150.0
"""Longest stay of objects of a job that is over; a node that does not answer is given that long."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Jobs and pods as the API server has them at `at` (monotonic seconds); each list is of one moment."""

    at: float
    jobs: list[Document]
    pods: list[Document]
    side_objects: list[Document]
    """Services, Secrets and NetworkPolicies of jobs."""
    capacity: dict[str, int]
    """UUID of a GPU -> MiB; GPUs that are missing keep what they had."""

    def job(self, key: str) -> Document:
        return next((job for job in self.jobs if key_of(job) == key), {})


def observe(api: Api, at: float, capacity: dict[str, int]) -> Observation:
    """Read jobs, pods and side objects; update `capacity`. OSError or ApiError while the API server is away."""
    for node in api.call("GET", f"/apis/{names.API_VERSION}/gpunodes")["items"]:
        capacity |= {gpu["uuid"]: gpu["memoryMiB"] for gpu in node.get("status", {}).get("gpus", ())}
    selector = f"?labelSelector={names.LABEL_JOB}"
    kinds = ("/api/v1/services", "/api/v1/secrets", "/apis/networking.k8s.io/v1/networkpolicies")
    return Observation(
        at,
        api.call("GET", JOBS)["items"],
        api.call("GET", f"/api/v1/pods{selector}")["items"],
        [item for kind in kinds for item in api.call("GET", kind + selector)["items"]],
        capacity,
    )


def key_of(document: Document) -> str:
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}"


@dataclass(slots=True)
class Invariants:
    """The invariants, with the onset of each state that may last for a limited time only."""

    since: dict[str, float] = field(default_factory=dict)
    """Limit and sentence -> monotonic seconds at which the state was first seen."""

    def violation(self, observation: Observation) -> str:
        """The first violated invariant as a sentence; empty when all hold."""
        for invariant in (_overcommitted_gpus, _exceeded_quotas, _wrong_results, _charged_faults):
            for sentence in invariant(observation):
                return sentence
        return self._too_long(observation, UNEXPLAINED_S, _unexplained(observation)) or self._too_long(
            observation, LEFTOVER_S, _leftovers(observation)
        )

    def _too_long(self, observation: Observation, limit_s: float, found: Iterator[str]) -> str:
        sentences = set(found)
        kind = f"{limit_s:.0f}:"
        for gone in [key for key in self.since if key.startswith(kind) and key.removeprefix(kind) not in sentences]:
            del self.since[gone]
        for each in sorted(sentences):
            if observation.at - self.since.setdefault(kind + each, observation.at) > limit_s:
                return f"{each}, for {limit_s:.0f} s"
        return ""


def _overcommitted_gpus(observation: Observation) -> Iterator[str]:
    by_status, by_pods = Counter[str](), Counter[str]()
    for job in observation.jobs:
        by_status.update({gpu["uuid"]: 0 for _, gpu in _grants(job)})
        for _, gpu in _grants(job):
            by_status[gpu["uuid"]] += gpu["memoryMiB"]
    for pod in observation.pods:
        text = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_PLACEMENT)
        if text and not _is_over(pod):
            for gpu in (gpu for gpus in json.loads(text)["grants"].values() for gpu in gpus):
                by_pods[gpu["uuid"]] += gpu["memoryMiB"]
    for what, held in (("placements", by_status), ("pods", by_pods)):
        for uuid, mib in held.items():
            if mib > observation.capacity.get(uuid, mib):
                yield f"{what} hold {mib} MiB of {uuid}, which has {observation.capacity[uuid]}"


def _is_over(pod: Document) -> bool:
    """Whether its worker container has ended. The kubelet writes this before the pod's phase."""
    told = pod["status"].get("containerStatuses") or ()
    ended = any(one["name"] == names.CONTAINER and "terminated" in one["state"] for one in told)
    return ended or pod["status"].get("phase") in {"Succeeded", "Failed"}


def _exceeded_quotas(observation: Observation) -> Iterator[str]:
    held = Counter[str]()
    for job in observation.jobs:
        held[job["spec"]["queue"]] += sum(gpu["computeMilli"] for _, gpu in _grants(job))
    for queue, milli in held.items():
        if milli > LIMIT * 1000:
            yield f"queue {queue} holds {milli} thousandths of a GPU; its limit is {LIMIT}"


def _grants(job: Document) -> Iterator[tuple[int, Document]]:
    """(rank, grant) of each GPU that a job holds."""
    status = job.get("status", {})
    if status.get("phase") in ADMITTED:
        for node in (status.get("placement") or {"nodes": []})["nodes"]:
            for rank in node["ranks"]:
                yield from ((rank["rank"], gpu) for gpu in rank["gpus"])


def _wrong_results(observation: Observation) -> Iterator[str]:
    for job in observation.jobs:
        status = job.get("status", {})
        if status.get("phase") in TERMINAL - {"Succeeded"}:
            yield f"{key_of(job)} is {status['phase']}: {status.get('message')}"
        checked = status.get("phase") == "Succeeded" and "checkpoint" in job["spec"]
        if checked and (status.get("results") or {}).get("value") != RIGHT:
            yield f"{key_of(job)} came to {status.get('results')} instead of {RIGHT}"


def _charged_faults(observation: Observation) -> Iterator[str]:
    for job in observation.jobs:
        status, key = job.get("status", {}), key_of(job)
        if status.get("failures"):
            yield f"{key} was charged for a fault that is not its own: {status.get('lastExit')}"
        for ending in (status.get("lastExit") or {}, status.get("eviction") or {}):
            message, reason = ending.get("message", ""), ending.get("reason") or ending.get("kind") or "Completed"
            if ending and (reason in OWN_FAULTS or not message or "Traceback" in message or "\n" in message):
                yield f"{key} names no real cause: {reason}: {message!r}"


def _unexplained(observation: Observation) -> Iterator[str]:
    for job in observation.jobs:
        status = job.get("status", {})
        phase = status.get("phase")
        if phase == "Pending" and not (status.get("pending") or {}).get("message"):
            yield f"{key_of(job)} waits and does not say why"
        elif phase not in {"Running", *TERMINAL} and not status.get("message"):
            yield f"{key_of(job)} is {phase} and does not say why"


def _leftovers(observation: Observation) -> Iterator[str]:
    known = {job["metadata"]["uid"]: job for job in observation.jobs}
    for pod in observation.pods:
        job = known.get(pod["metadata"]["labels"].get(names.LABEL_JOB_UID, ""))
        over = job is None or job.get("status", {}).get("phase") in TERMINAL
        if over and pod["status"].get("phase") not in {"Succeeded", "Failed"}:
            yield f"pod {key_of(pod)} of a job that is over still runs"
    for each in [*observation.pods, *observation.side_objects]:
        if each["metadata"]["labels"].get(names.LABEL_JOB_UID) not in known:
            yield f"{each.get('kind', 'object')} {key_of(each)} of a job that was deleted is still there"
