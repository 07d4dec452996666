"""What must hold on a whole cluster whatever dies in it, looked at through the API server all the time.

`View` is one look; `broken` says which rule it breaks, in a sentence. Rules about time are given the moment since which
something has been so. An API server that does not answer is no broken rule: that look is left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from chaos_jobs import LIMIT, RIGHT

from cotenant import names
from cotenant_local.host.api_client import Api

Document = dict[str, Any]
JOBS = f"/apis/{names.API_VERSION}/trainingjobs"
HOLDING = {"Starting", "Running", "Evicting"}
OVER = {"Succeeded", "Failed", "Invalid"}
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
"""Reasons that blame a program, and these programs do nothing wrong."""
UNTOLD_S = 30.0
"""A job that does not run says why within this."""
LEFT_S = 150.0
"""Longest stay of what belonged to a job that is over; a node that does not answer is given that long."""


@dataclass(frozen=True, slots=True)
class View:
    """Jobs and pods as the API server has them; each list is of one moment."""

    at: float
    jobs: list[Document]
    pods: list[Document]
    beside: list[Document]
    """Services, Secrets and NetworkPolicies of jobs."""
    capacity: dict[str, int]
    """GPU → MiB; GPUs out of sight keep what they had."""

    def job(self, key: str) -> Document:
        return next((job for job in self.jobs if key_of(job) == key), {})


def look(api: Api, at: float, capacity: dict[str, int]) -> View:
    """Raises OSError or ApiError while the API server is away."""
    for node in api.call("GET", f"/apis/{names.API_VERSION}/gpunodes")["items"]:
        capacity |= {gpu["uuid"]: gpu["memoryMiB"] for gpu in node.get("status", {}).get("gpus", ())}
    selector = f"?labelSelector={names.LABEL_JOB}"
    kinds = ("/api/v1/services", "/api/v1/secrets", "/apis/networking.k8s.io/v1/networkpolicies")
    return View(
        at,
        api.call("GET", JOBS)["items"],
        api.call("GET", f"/api/v1/pods{selector}")["items"],
        [item for kind in kinds for item in api.call("GET", kind + selector)["items"]],
        capacity,
    )


def key_of(document: Document) -> str:
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}"


@dataclass(slots=True)
class Rules:
    """Remembers since when something has been so."""

    since: dict[str, float] = field(default_factory=dict)

    def broken(self, view: View) -> str:
        """The first broken rule; empty when all hold."""
        for rule in (_too_much_of_a_gpu, _too_much_of_a_quota, _wrong_end, _charged):
            for said in rule(view):
                return said
        return self._too_long(view, UNTOLD_S, _untold(view)) or self._too_long(view, LEFT_S, _left(view))

    def _too_long(self, view: View, patience_s: float, found: Iterator[str]) -> str:
        said = set(found)
        kind = f"{patience_s:.0f}:"
        for gone in [key for key in self.since if key.startswith(kind) and key.removeprefix(kind) not in said]:
            del self.since[gone]
        for each in sorted(said):
            if view.at - self.since.setdefault(kind + each, view.at) > patience_s:
                return f"{each}, for {patience_s:.0f} s"
        return ""


def _too_much_of_a_gpu(view: View) -> Iterator[str]:
    by_status, by_pods = Counter[str](), Counter[str]()
    for job in view.jobs:
        by_status.update({gpu["uuid"]: 0 for _, gpu in _grants(job)})
        for _, gpu in _grants(job):
            by_status[gpu["uuid"]] += gpu["memoryMiB"]
    for pod in view.pods:
        text = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_PLACEMENT)
        if text and pod["status"].get("phase") not in {"Succeeded", "Failed"}:
            for gpu in (gpu for gpus in json.loads(text)["grants"].values() for gpu in gpus):
                by_pods[gpu["uuid"]] += gpu["memoryMiB"]
    for what, held in (("placements", by_status), ("pods", by_pods)):
        for uuid, mib in held.items():
            if mib > view.capacity.get(uuid, mib):
                yield f"{what} hold {mib} MiB of {uuid}, which has {view.capacity[uuid]}"


def _too_much_of_a_quota(view: View) -> Iterator[str]:
    held = Counter[str]()
    for job in view.jobs:
        held[job["spec"]["queue"]] += sum(gpu["computeMilli"] for _, gpu in _grants(job))
    for queue, milli in held.items():
        if milli > LIMIT * 1000:
            yield f"queue {queue} holds {milli} thousandths of a GPU; its limit is {LIMIT}"


def _grants(job: Document) -> Iterator[tuple[int, Document]]:
    """(rank, grant) of a job that holds GPUs."""
    status = job.get("status", {})
    if status.get("phase") in HOLDING:
        for node in (status.get("placement") or {"nodes": []})["nodes"]:
            for rank in node["ranks"]:
                yield from ((rank["rank"], gpu) for gpu in rank["gpus"])


def _wrong_end(view: View) -> Iterator[str]:
    for job in view.jobs:
        status = job.get("status", {})
        if status.get("phase") in OVER - {"Succeeded"}:
            yield f"{key_of(job)} is {status['phase']}: {status.get('message')}"
        checked = status.get("phase") == "Succeeded" and "checkpoint" in job["spec"]
        if checked and (status.get("results") or {}).get("value") != RIGHT:
            yield f"{key_of(job)} came to {status.get('results')} instead of {RIGHT}"


def _charged(view: View) -> Iterator[str]:
    for job in view.jobs:
        status, key = job.get("status", {}), key_of(job)
        if status.get("failures"):
            yield f"{key} was charged for a fault that is not its own: {status.get('lastExit')}"
        for told in (status.get("lastExit") or {}, status.get("eviction") or {}):
            message, reason = told.get("message", ""), told.get("reason") or told.get("kind") or "Completed"
            if told and (reason in OWN_FAULTS or not message or "Traceback" in message or "\n" in message):
                yield f"{key} names no real cause: {reason}: {message!r}"


def _untold(view: View) -> Iterator[str]:
    for job in view.jobs:
        status = job.get("status", {})
        phase = status.get("phase")
        if phase == "Pending" and not (status.get("pending") or {}).get("message"):
            yield f"{key_of(job)} waits and does not say why"
        elif phase not in {"Running", *OVER} and not status.get("message"):
            yield f"{key_of(job)} is {phase} and does not say why"


def _left(view: View) -> Iterator[str]:
    known = {job["metadata"]["uid"]: job for job in view.jobs}
    for pod in view.pods:
        job = known.get(pod["metadata"]["labels"].get(names.LABEL_JOB_UID, ""))
        over = job is None or job.get("status", {}).get("phase") in OVER
        if over and pod["status"].get("phase") not in {"Succeeded", "Failed"}:
            yield f"pod {key_of(pod)} of a job that is over still runs"
    for each in [*view.pods, *view.beside]:
        if each["metadata"]["labels"].get(names.LABEL_JOB_UID) not in known:
            yield f"{each.get('kind', 'object')} {key_of(each)} of a job that was deleted is still there"
