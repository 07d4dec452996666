"""Profiles as last seen, and the documents of jobs that their profiles make unreadable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cotenant.api.conversion.job_profiles import Profiles
from cotenant.api.conversion.to_core import parse_cluster_profile, parse_profile
from cotenant.api.resources.training_profiles import ClusterTrainingProfile, TrainingProfile
from cotenant.controller.client.kube import PROFILES, Document, Resource
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.core.model.objects import JobKey


class ProfileIndex:
    def __init__(self, unreadable: Mapping[tuple[str, str], str]) -> None:
        """`unreadable` maps (plural, key) to the error, for objects of all kinds. Read when a profile is needed."""
        self._of_namespaces: dict[str, TrainingProfile] = {}
        self._of_cluster: dict[str, ClusterTrainingProfile] = {}
        self.known = Profiles(self._of_namespaces, self._of_cluster, unreadable)
        self._unresolved: dict[JobKey, Document] = {}

    def put(self, resource: Resource, key: str, document: Document) -> None:
        """Take a profile in. Raises DocumentError."""
        if resource == PROFILES:
            self._of_namespaces[key] = parse_profile(document)
        else:
            self._of_cluster[key] = parse_cluster_profile(document)

    def drop(self, resource: Resource, key: str) -> None:
        if resource == PROFILES:
            self._of_namespaces.pop(key, None)
        else:
            self._of_cluster.pop(key, None)

    def read(self, key: JobKey, document: Document, seen: JobRecord | None) -> JobRecord:
        """The job as `read_job` returns it. If its profile is missing or refuses it, the document is kept to be read
        again.
        """
        record = read_job(document, self.known, seen)
        self._unresolved.pop(key, None)
        if record.job is None and (document.get("spec") or {}).get("profile") is not None:
            self._unresolved[key] = document
        return record

    def forget(self, key: JobKey) -> None:
        self._unresolved.pop(key, None)

    def read_again(self, jobs: Mapping[JobKey, JobRecord]) -> Iterator[tuple[JobKey, JobRecord]]:
        """Jobs that could not be read before, read again with the profiles of now."""
        for key, document in list(self._unresolved.items()):
            before, record = jobs.get(key), self.read(key, document, None)
            if before is None or (before.problem, before.job) != (record.problem, record.job):
                yield key, record
