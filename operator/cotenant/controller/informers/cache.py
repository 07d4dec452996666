"""The informer cache: objects of the API server that the operator needs, decoded once.

Watch events, lists and the answers to our own writes report the same objects in any order; `object_versions` tells
which report is news. Changes are noted until the scheduling loop takes them. An object that cannot be read is listed in
`unreadable`, and delays no other.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cotenant import names
from cotenant.api.conversion.quota_grants import grant_of
from cotenant.api.conversion.to_core import parse_booking, parse_queue, parse_quota_request, parse_remote_cluster
from cotenant.api.resources.bookings import Booking
from cotenant.api.resources.queues import Queue
from cotenant.api.resources.quota_requests import QuotaRequest
from cotenant.api.resources.remote_clusters import RemoteCluster
from cotenant.api.validation.problems import DocumentError
from cotenant.controller.client.kube import (
    BOOKINGS,
    CLUSTER_PROFILES,
    GPU_NODES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    PRIORITY_CLASSES,
    PROFILES,
    QUEUES,
    QUOTA_REQUESTS,
    REMOTE_CLUSTERS,
    RESOURCE_CLAIMS,
    TRAINING_JOBS,
    Document,
    Listing,
    Resource,
    key_of,
    version_of,
)
from cotenant.controller.informers.changes import Changes
from cotenant.controller.informers.claim_index import ClaimIndex
from cotenant.controller.informers.job_record import JobId, JobRecord, unreadable_job
from cotenant.controller.informers.node_index import NodeIndex
from cotenant.controller.informers.object_versions import ObjectVersions
from cotenant.controller.informers.pods.pod_index import PodIndex
from cotenant.controller.informers.pods.pod_record import PodRecord, read_pod
from cotenant.controller.informers.profile_index import ProfileIndex
from cotenant.controller.informers.volume_index import VolumeIndex
from cotenant.controller.telemetry.logs import error_text
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import BookedGpus
from cotenant.core.quota.bookings import BookingStanding

log = logging.getLogger(__name__)


class ObjectCache:
    def __init__(self, wake: Callable[[], None] = lambda: None, *, clock: Callable[[], float] = time.time) -> None:
        self.jobs: dict[JobKey, JobRecord] = {}
        self.pods = PodIndex()
        self.nodes = NodeIndex()
        self.claims = ClaimIndex()
        self.volumes = VolumeIndex()
        self.queues: dict[str, Queue] = {}
        self.queue_statuses: dict[str, Mapping[str, Any]] = {}
        """Statuses as stored, so that only differences are written: a default that was never written reads like one
        that was.
        """
        self.quota_requests: dict[str, QuotaRequest] = {}
        """By namespace/name."""
        self.quota_grants: dict[str, QuotaRequest] = {}
        """The QuotaRequests that have a grant. Tenants may make any number of requests, but these are few."""
        self.tenancy_revision = 0
        """Grows when the spec of a queue or the labels of a namespace change."""
        self.bookings: dict[str, Booking] = {}
        self.booked: dict[str, tuple[BookingStanding, BookedGpus]] = {}
        """Name of a Booking → what the last plan did for it."""
        self.remote_clusters: dict[str, tuple[RemoteCluster, Mapping[str, Any]]] = {}
        """RemoteClusters with their stored statuses."""
        self.namespaces: dict[str, dict[str, str]] = {}
        self.priority_classes: dict[str, int] = {}
        self.base_network_policies: dict[str, Document] = {}
        """By namespace."""
        self.unreadable: dict[tuple[str, str], str] = {}
        """(plural, namespace/name) → why its newest version cannot be read.

        Of a pod or a node, the last readable version still counts. A queue that cannot be read grants nothing.
        """
        self.profiles = ProfileIndex(self.unreadable)
        self._changes = Changes()
        self._wake, self._clock = wake, clock
        self._versions = ObjectVersions()

    def job(self, job: JobId) -> JobRecord | None:
        """The record of this job. A later job of the same name has another record."""
        record = self.jobs.get(job.key)
        return record if record is not None and record.id == job else None

    def pods_of(self, job: JobId) -> Mapping[str, PodRecord]:
        """Name → pod of the job, of any attempt."""
        return self.pods.of_job(job)

    def put(self, resource: Resource, document: Document, deleted: bool = False) -> None:
        """Take in one observed object. An older version than the known one is dropped."""
        metadata = document["metadata"]
        key, uid = key_of(metadata), metadata["uid"]
        if self._versions.is_gone(uid):
            return
        if deleted:
            if resource == PODS:
                self._note_deletion(key, document)
            if self._versions.note_gone(resource, key, uid):
                self._drop(resource, key)
        elif self._versions.note(resource, key, uid, version_of(document)):
            self._take_in(resource, key, document)
        else:
            return
        self._wake()

    def replace(self, resource: Resource, listing: Listing) -> None:
        """Take in a whole list, and drop what is gone."""
        restored, gone = self._versions.take_list(resource, listing, self.put)
        if restored:
            log.warning("the list of %s is older than what was seen: etcd was restored, everything counts as new",
                        resource.plural)  # fmt: skip
            self.mark_all_changed()
        for key in gone:
            self._drop(resource, key)
        if gone:
            self._wake()

    def newest_version(self, resource: Resource) -> int:
        return self._versions.newest(resource)

    def remove(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        """Drop an object of which the API server has said that it does not exist."""
        key = f"{namespace}/{name}" if namespace else name
        known = self._versions.is_known(resource, key, uid)
        self._versions.note_gone(resource, key, uid)
        if known:
            self._drop(resource, key)
            self._wake()

    def mark_changed(self, jobs: Iterable[JobId] = (), nodes: Iterable[str] = ()) -> None:
        """Have the loop look at these jobs again."""
        self._changes.jobs.update(jobs)
        self._changes.nodes.update(nodes)
        self._wake()

    def mark_all_changed(self) -> None:
        """Have the loop look at everything again: jobs, pods whose job is gone, nodes and queues."""
        self._changes.nodes |= self.nodes.facts.keys() | self.nodes.gpu_nodes.keys()
        self._changes.queues = True
        self.mark_changed(record.id for record in self.jobs.values())
        self.mark_changed(pod.worker.job for pod in self.pods.ours() if pod.worker)
        self.mark_changed(self.pods.departed.jobs())

    def forget_node(self, node: str) -> None:
        """Forget the node's GPUs, and everything that held them without an object."""
        self.mark_changed(self.pods.departed.forget_node(node))

    def note_unreadable(self, resource: Resource, key: str, error: BaseException) -> None:
        """List an object that cannot be used, until a newer version of it comes."""
        why = str(error) if isinstance(error, DocumentError) else error_text(error)
        log.error("%s %s cannot be read: %s", resource.plural, key, why)
        self.unreadable[resource.plural, key] = why

    def unreadable_of(self, resource: Resource) -> int:
        """Number of objects of this kind that cannot be read."""
        return sum(plural == resource.plural for plural, _ in self.unreadable)

    def pop_changes(self) -> Changes:
        changes, self._changes = self._changes, Changes()
        return changes

    def _take_in(self, resource: Resource, key: str, document: Document) -> None:
        """Take in one object. An error stops no other object."""
        try:
            self._store(resource, key, document)
        except Exception as error:
            self.note_unreadable(resource, key, error)
            self._store_unreadable(resource, key, document, error_text(error))
        else:
            self.unreadable.pop((resource.plural, key), None)

    def _store_unreadable(self, resource: Resource, key: str, document: Document, why: str) -> None:
        """Keep what was last readable of it, if it is still the same object."""
        if resource == TRAINING_JOBS:
            self._store_job(key, unreadable_job(document, f"the document cannot be read: {why}"))
        elif resource == PODS:
            self._changes.note_pods(self.pods.keep_same(key, document["metadata"]["uid"], self._clock()))
        elif resource in {QUEUES, QUOTA_REQUESTS, BOOKINGS}:
            self._drop_queue_part(resource, key)  # it grants nothing
        elif resource == REMOTE_CLUSTERS:
            self.remote_clusters.pop(key, None)
        elif resource in {PROFILES, CLUSTER_PROFILES}:
            self._drop_profile(resource, key)  # no job is begun by an earlier version of it

    def _note_deletion(self, key: str, document: Document) -> None:
        try:
            last = read_pod(document, self.pods.get(key))
            if (known := self.pods.get(key)) is not None and known.uid == last.uid:
                self._changes.note_pods(self.pods.put(key, last, self._clock()))  # it may have ended in its last state
            self._note_deleted((last,))
        except Exception as error:
            log.error("the last state of pod %s cannot be read: %s", key, error_text(error))

    def _note_deleted(self, pods: Iterable[PodRecord]) -> None:
        """Keep what deleted pods tell of their jobs. Those of a job that is gone would be kept for ever."""
        for pod in pods:
            if pod.worker is not None and self.job(pod.worker.job) is not None:
                self.pods.deleted.record(pod)

    def _store(self, resource: Resource, key: str, document: Document) -> None:
        name, changes = document["metadata"]["name"], self._changes
        if resource == TRAINING_JOBS:
            self._store_job(key, self.profiles.read(key, document, self.jobs.get(key)))
        elif resource == PODS:
            self._changes.note_pods(self.pods.put(key, read_pod(document, self.pods.get(key)), self._clock()))
        elif resource == NODES:
            self._note_node(name, became_unreachable=self.nodes.put_node(name, document, self._clock()))
            changes.jobs |= self.volumes.put_node(name, document["metadata"].get("labels") or {})
        elif resource in {PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS}:
            changes.jobs |= self.volumes.put(resource, key, document)
        elif resource == GPU_NODES:
            self._store_gpu_node(name, document)
        elif resource in {QUEUES, NAMESPACES, QUOTA_REQUESTS, BOOKINGS}:
            self._store_queue_part(resource, key, document)
        elif resource == REMOTE_CLUSTERS:
            self.remote_clusters[name] = parse_remote_cluster(document), document.get("status") or {}
        elif resource in {PROFILES, CLUSTER_PROFILES}:
            self.profiles.put(resource, key, document)
            self.unreadable.pop((resource.plural, key), None)
            self._read_jobs_again()
        elif resource == NETWORK_POLICIES and name == names.BASE_NETWORK_POLICY:
            self.base_network_policies[document["metadata"]["namespace"]] = document
        elif resource == RESOURCE_CLAIMS:
            self._changes.note_claim(key, self.claims.put(key, document), self.jobs.values())
        elif resource == PRIORITY_CLASSES:
            self.priority_classes[name] = int(document.get("value", 0))
            changes.jobs |= {one.id for one in self.jobs.values() if one.job and one.job.spec.priority_class_name}

    def _store_job(self, key: JobKey, record: JobRecord) -> None:
        replaced = self.jobs.get(key)
        if record.status_problem and record.status_problem != (replaced.status_problem if replaced else None):
            log.warning("%s is left alone: %s. A newer release may have written it", key, record.status_problem)
        self.jobs[key] = record
        self.volumes.put_job(record)
        self._changes.jobs.add(record.id)
        if replaced is not None and replaced.id != record.id:
            self._forget_job(replaced.id)

    def _drop(self, resource: Resource, key: str) -> None:
        changes = self._changes
        self.unreadable.pop((resource.plural, key), None)
        if resource == TRAINING_JOBS:
            record = self.jobs.pop(key, None)
            self.profiles.forget(key)
            if record is not None:
                self._forget_job(record.id)
        elif resource == PODS:
            dropped = tuple(self.pods.drop(key, self._clock()))
            self._note_deleted(dropped)
            self._changes.note_pods(dropped)
        elif resource == NODES:
            self._note_node(key, became_unreachable=self.nodes.drop_node(key, self._clock()))
            changes.jobs |= self.volumes.put_node(key, None)
        elif resource in {PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS}:
            changes.jobs |= self.volumes.drop(resource, key)
        elif resource == GPU_NODES:
            self.nodes.drop_gpu_node(key)
            changes.nodes.add(key)
        elif resource in {QUEUES, NAMESPACES, QUOTA_REQUESTS, BOOKINGS}:
            self._drop_queue_part(resource, key)
        elif resource == REMOTE_CLUSTERS:
            self.remote_clusters.pop(key, None)
        elif resource in {PROFILES, CLUSTER_PROFILES}:
            self._drop_profile(resource, key)
        elif resource == NETWORK_POLICIES and key.endswith(f"/{names.BASE_NETWORK_POLICY}"):
            self.base_network_policies.pop(key.partition("/")[0], None)
        elif resource == RESOURCE_CLAIMS:
            self._changes.note_claim(key, self.claims.drop(key), self.jobs.values())
        elif resource == PRIORITY_CLASSES:
            self.priority_classes.pop(key, None)
            self._changes.jobs |= {one.id for one in self.jobs.values() if one.job and one.job.spec.priority_class_name}

    def _forget_job(self, job: JobId) -> None:
        self._changes.jobs.add(job)
        self.pods.deleted.forget(job)
        self.volumes.drop_job(job)

    def _drop_profile(self, resource: Resource, key: str) -> None:
        self.profiles.drop(resource, key)
        self._read_jobs_again()

    def _read_jobs_again(self) -> None:
        for key, record in self.profiles.read_again(self.jobs):
            self._store_job(key, record)

    def _drop_queue_part(self, resource: Resource, key: str) -> None:
        if resource == QUOTA_REQUESTS:
            self._note_quota_request(key, None)
            return
        if resource == BOOKINGS:
            self.bookings.pop(key, None)
            self._changes.queues = True
            return
        (self.queues if resource == QUEUES else self.namespaces).pop(key, None)
        if resource == NAMESPACES:
            self._changes.jobs |= self.volumes.drop(resource, key)
        else:
            self._note_queue(key)
        self.tenancy_revision += 1
        self._changes.queues = True

    def _note_queue(self, name: str) -> None:
        """Have the loop look at the jobs of a Queue that has come or gone: their conditions say so."""
        self._changes.jobs |= {one.id for one in self.jobs.values() if one.queue_named == name}

    def _note_quota_request(self, key: str, request: QuotaRequest | None) -> None:
        """Take in a request, or drop it. Only what it was granted changes the queues."""
        before = self.quota_grants.pop(key, None)
        self.quota_requests.pop(key, None)
        if request is not None:
            self.quota_requests[key] = request
            if grant_of(request) is not None:
                self.quota_grants[key] = request
        after = self.quota_grants.get(key)
        if (before and grant_of(before)) != (after and grant_of(after)):
            self._changes.queues = True

    def _note_node(self, name: str, *, became_unreachable: bool) -> None:
        self._changes.note_node(name, self.pods.ours() if became_unreachable else ())

    def _store_queue_part(self, resource: Resource, key: str, document: Document) -> None:
        if resource == QUEUES:
            self._store_queue(key, document)
        elif resource == QUOTA_REQUESTS:
            self._note_quota_request(key, parse_quota_request(document))
        elif resource == BOOKINGS:
            self.bookings[key] = parse_booking(document)
            self._changes.queues = True
        else:
            labels = document["metadata"].get("labels") or {}
            self.tenancy_revision += self.namespaces.get(key) != labels
            self.namespaces[key] = labels
            self._changes.queues = True
            self._changes.jobs |= self.volumes.put(resource, key, document)

    def _store_queue(self, name: str, document: Document) -> None:
        self.queue_statuses[name] = document.get("status") or {}
        queue = parse_queue(document)
        known = self.queues.get(name)
        if known is None:
            self._note_queue(name)
        self.tenancy_revision += known is None or known.spec != queue.spec
        self.queues[name] = queue
        self._changes.queues = True

    def _store_gpu_node(self, name: str, document: Document) -> None:
        before = self.nodes.gpu_nodes.get(name)
        named = self.nodes.put_gpu_node(name, document)
        seen = self.nodes.gpu_nodes.get(name)
        if seen is None or seen is before:
            return
        self._changes.note_report(name, before, seen, self.pods.ours(), named)
        self._changes.jobs |= self.pods.departed.report(name, seen.status.holders, self._clock())
