"""Claims, volumes and the labels of nodes: where jobs can mount their claims. One writer, the object cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from cotenant.api.conversion.volumes import BoundVolume, Claim, Labels, claims_of, to_claim, to_volume, with_volumes
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.controller.client.kube import PERSISTENT_VOLUME_CLAIMS, Document, Resource
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.core.model.objects import Job

_Value = TypeVar("_Value")


class VolumeIndex:
    def __init__(self) -> None:
        self.revision = 0
        """Grows when the places of a job with claims may be other."""
        self._claims: dict[str, dict[str, Claim]] = {}
        """Namespace → name → claim."""
        self._volumes: dict[str, BoundVolume] = {}
        self._labels: dict[str, Labels] = {}
        """Of nodes, by name."""
        self._nodes: dict[BoundVolume, frozenset[str]] = {}
        """Nodes that fit volumes that jobs have asked for; emptied when labels change."""

    def put(self, resource: Resource, key: str, document: Document) -> bool:
        """Take a claim or a volume in. True if it is other than before, as far as nodes go."""
        if resource == PERSISTENT_VOLUME_CLAIMS:
            namespace, _, name = key.partition("/")
            return self._set(self._claims.setdefault(namespace, {}), name, to_claim(document))
        return self._set(self._volumes, key, to_volume(document))

    def drop(self, resource: Resource, key: str) -> bool:
        """The same, for one that is gone."""
        namespace, _, name = key.partition("/")
        if resource == PERSISTENT_VOLUME_CLAIMS:
            claims = self._claims.get(namespace, {})
            gone = self._pop(claims, name)
            if not claims:
                self._claims.pop(namespace, None)
            return gone
        return self._pop(self._volumes, key)

    def put_node(self, name: str, labels: Labels) -> bool:
        """True if its labels are other than before."""
        return self._set(self._labels, name, labels)

    def drop_node(self, name: str) -> bool:
        """True if it was known."""
        return self._pop(self._labels, name)

    def place(self, job: Job, document: TrainingJob) -> Job:
        """The job where its claims can be mounted. Raises DocumentError where no placement will ever do."""
        return with_volumes(job, document, self._claims.get(job.namespace, {}), self._volumes, self._nodes_of)

    def _set(self, known: dict[str, _Value], name: str, value: _Value) -> bool:
        if known.get(name) == value:
            return False
        known[name] = value
        return self._note_change()

    def _pop(self, known: dict[str, _Value], name: str) -> bool:
        return known.pop(name, None) is not None and self._note_change()

    def _note_change(self) -> bool:
        self._nodes.clear()
        self.revision += 1
        return True

    def _nodes_of(self, volume: BoundVolume) -> frozenset[str]:
        if volume not in self._nodes:
            self._nodes[volume] = frozenset(name for name, labels in self._labels.items() if volume.fits(name, labels))
        return self._nodes[volume]


def jobs_with_claims(records: Iterable[JobRecord]) -> Iterator[JobId]:
    return (record.id for record in records if record.job is not None and claims_of(record.job.spec))
