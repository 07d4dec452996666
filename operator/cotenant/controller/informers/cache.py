"""What the API server holds, as far as the operator cares, decoded once.

Three sources report the same objects in any order: watch events, lists, and the answers to our own writes. The newest
version wins, and a uid that was deleted never comes back. What changed is noted in `changed`, which the loop drains.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cotenant.api.conversion.nodes import NodeFacts, to_node_facts
from cotenant.api.conversion.to_core import parse_gpunode, parse_queue
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.api.resources.queues import Queue
from cotenant.api.validation.errors import DocumentError
from cotenant.controller.client.kube import (
    GPU_NODES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    TRAINING_JOBS,
    Document,
    Listing,
    Resource,
    key_of,
    version_of,
)
from cotenant.controller.informers.deleted_pods import DeletedPods
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.informers.pod_record import NodeLoad, PodRecord, read_pod, unix
from cotenant.core.model.objects import JobKey

TOMBSTONES_MAX = 20_000
"""How many deleted uids are remembered: enough for everything that may still be on its way."""


@dataclass(slots=True)
class Changes:
    """What the loop has not looked at yet."""

    jobs: set[JobKey] = field(default_factory=set)
    uids: set[str] = field(default_factory=set)
    """Jobs whose pods changed, by uid: the job itself may be gone."""
    nodes: set[str] = field(default_factory=set)
    queues: bool = False


class ObjectCache:
    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self.jobs: dict[JobKey, JobRecord] = {}
        self.workers: dict[str, dict[str, PodRecord]] = {}
        """Our pods: uid of the job → name → pod."""
        self.deleted_pods = DeletedPods()
        self.nodes: dict[str, NodeFacts] = {}
        self.taints: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self.unreachable: dict[str, float] = {}
        """Nodes whose kubelet does not answer, and since when: nothing on them can be asked to end."""
        self.gpu_nodes: dict[str, GPUNode] = {}
        self.queues: dict[str, Queue] = {}
        self.queue_statuses: dict[str, Mapping[str, Any]] = {}
        """As written, to write only what differs: a default that was never written reads like one that was."""
        self.namespaces: dict[str, dict[str, str]] = {}
        self.priority_classes: dict[str, int] = {}
        self.load: dict[str, NodeLoad] = {}
        self.changed = Changes()
        self._wake = wake
        self._pods: dict[str, PodRecord] = {}
        self._seen: dict[tuple[str, str], tuple[str, int]] = {}
        """(plural, namespace/name) → (uid, version)."""
        self._tombstones: OrderedDict[str, None] = OrderedDict()

    def put(self, resource: Resource, document: Document, deleted: bool = False) -> None:
        """One object as somebody saw it. What is older than what is known is dropped."""
        metadata = document["metadata"]
        key, uid, version = key_of(metadata), metadata["uid"], version_of(document)
        known = self._seen.get((resource.plural, key))
        if uid in self._tombstones:
            return
        if deleted:
            self._add_tombstone(uid)
            if resource == PODS:
                self.deleted_pods.record(read_pod(document))
            if known is None or known[0] == uid:
                self._drop(resource, key)
        elif known is None or known[0] != uid or version > known[1]:
            self._seen[resource.plural, key] = (uid, version)
            self._store(resource, key, document)
        else:
            return
        self._wake()

    def replace(self, resource: Resource, listing: Listing) -> None:
        """A whole list: what is missing from it, and is not newer, is gone."""
        for document in listing.items:
            self.put(resource, document)
        present = {document["metadata"]["uid"] for document in listing.items}
        gone = [
            (key, uid)
            for (plural, key), (uid, version) in self._seen.items()
            if plural == resource.plural and uid not in present and version <= listing.version
        ]
        for key, uid in gone:
            self._add_tombstone(uid)
            self._drop(resource, key)
        if gone:
            self._wake()

    def remove(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        """The API server said that this object is not there."""
        key = f"{namespace}/{name}" if namespace else name
        self._add_tombstone(uid)
        known = self._seen.get((resource.plural, key))
        if known is not None and known[0] == uid:
            self._drop(resource, key)
            self._wake()

    def requeue(self, key: JobKey) -> None:
        """Have the loop look at this job again."""
        self.changed.jobs.add(key)
        self._wake()

    def pop_changes(self) -> Changes:
        changed, self.changed = self.changed, Changes()
        return changed

    def pods_of(self, uid: str) -> dict[str, PodRecord]:
        return self.workers.get(uid, {})

    def _add_tombstone(self, uid: str) -> None:
        self._tombstones[uid] = None
        if len(self._tombstones) > TOMBSTONES_MAX:
            self._tombstones.popitem(last=False)

    def _store(self, resource: Resource, key: str, document: Document) -> None:
        name = document["metadata"]["name"]
        if resource == TRAINING_JOBS:
            self.jobs[key] = read_job(document)
            self.changed.jobs.add(key)
        elif resource == PODS:
            self._put_pod(key, read_pod(document))
        elif resource == NODES:
            self._put_node(name, document)
        elif resource == GPU_NODES:
            self._put_gpu_node(name, document)
        elif resource == QUEUES:
            self._put_queue(name, document)
        elif resource == NAMESPACES:
            self.namespaces[name] = document["metadata"].get("labels") or {}
            self.changed.queues = True
        elif resource == PRIORITY_CLASSES:
            self.priority_classes[name] = int(document.get("value", 0))
            self.changed.jobs |= {key for key, one in self.jobs.items() if one.job and one.job.spec.priority_class_name}

    def _drop(self, resource: Resource, key: str) -> None:
        self._seen.pop((resource.plural, key), None)
        if resource == TRAINING_JOBS:
            record = self.jobs.pop(key, None)
            self.changed.jobs.add(key)
            if record is not None:
                self.changed.uids.add(record.uid)
                self.deleted_pods.forget(record.uid)
        elif resource == PODS:
            self._drop_pod(key)
        elif resource in {NODES, GPU_NODES}:
            (self.nodes if resource == NODES else self.gpu_nodes).pop(key, None)
            if resource == NODES:
                self._set_unreachable(key, time.time())
            self.changed.nodes.add(key)
        elif resource in {QUEUES, NAMESPACES}:
            (self.queues if resource == QUEUES else self.namespaces).pop(key, None)
            self.changed.queues = True
        elif resource == PRIORITY_CLASSES:
            self.priority_classes.pop(key, None)

    def _put_pod(self, key: str, pod: PodRecord) -> None:
        self._drop_pod(key)
        self._pods[key] = pod
        if pod.worker is not None:
            self.workers.setdefault(pod.worker.job_uid, {})[pod.name] = pod
            self.changed.uids.add(pod.worker.job_uid)
            self.changed.jobs.add(f"{pod.namespace}/{pod.worker.job}")
        if pod.worker is None or pod.worker.server:
            self._add_load(pod, 1)

    def _drop_pod(self, key: str) -> None:
        pod = self._pods.pop(key, None)
        if pod is None:
            return
        if pod.worker is None or pod.worker.server:
            self._add_load(pod, -1)
        if pod.worker is None:
            return
        uid = pod.worker.job_uid
        self.workers[uid].pop(pod.name, None)
        if not self.workers[uid]:
            del self.workers[uid]
        self.changed.uids.add(uid)
        self.changed.jobs.add(f"{pod.namespace}/{pod.worker.job}")

    def _add_load(self, pod: PodRecord, sign: int) -> None:
        if not pod.node or not pod.held:
            return
        self.load.setdefault(pod.node, NodeLoad()).add(pod, sign)
        self.changed.nodes.add(pod.node)

    def _put_node(self, name: str, document: Document) -> None:
        self.nodes[name] = to_node_facts(document)
        self.taints[name] = tuple((document.get("spec") or {}).get("taints") or ())
        conditions = (document.get("status") or {}).get("conditions") or ()
        ready: Mapping[str, Any] = next((one for one in conditions if one.get("type") == "Ready"), {})
        alive = ready.get("status") == "True"
        self._set_unreachable(name, None if alive else unix(ready.get("lastTransitionTime")) or time.time())
        self.changed.nodes.add(name)

    def _set_unreachable(self, node: str, dead_since: float | None) -> None:
        if dead_since is None:
            self.unreachable.pop(node, None)
        elif node not in self.unreachable:
            self.unreachable[node] = dead_since
            ours = (pod for pod in self._pods.values() if pod.node == node)
            self.changed.jobs |= {f"{pod.namespace}/{pod.worker.job}" for pod in ours if pod.worker}

    def _put_gpu_node(self, name: str, document: Document) -> None:
        try:
            seen = parse_gpunode(document)
        except DocumentError:
            return  # a newer agent's document: the last one that could be read goes stale by its heartbeat
        before = self.gpu_nodes.get(name)
        self.gpu_nodes[name] = seen
        self.changed.nodes.add(name)
        if seen.status.violations or (before and before.status.violations):
            pods = {violation.pod_uid for violation in seen.status.violations}
            self.changed.jobs |= {
                f"{pod.namespace}/{pod.worker.job}" for pod in self._pods.values() if pod.worker and pod.uid in pods
            }

    def _put_queue(self, name: str, document: Document) -> None:
        try:
            self.queues[name] = parse_queue(document)
            self.queue_statuses[name] = document.get("status") or {}
        except DocumentError:
            self.queues.pop(name, None)  # a queue that cannot be read grants nothing
        self.changed.queues = True
