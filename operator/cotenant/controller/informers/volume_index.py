"""Claims, volumes, labels of nodes and node selectors of namespaces: where pods of jobs can run. Its only writer is the
object cache.

Tenants may make and change any number of claims, so an event concerns only jobs whose places it may change: a claim the
jobs of its namespace that mount it, a volume the jobs with claims bound to it, a node the jobs whose volumes it fits. A
namespace's selector is kept as a volume with a claim that all its jobs mount.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from cotenant.api.conversion.volumes import (
    BoundVolume,
    Claim,
    Labels,
    claims_of,
    keeps_on_one_node,
    to_claim,
    to_node_selector,
    to_volume,
    with_volumes,
)
from cotenant.api.resources.trainingjobs import TrainingJob, TrainingJobSpec
from cotenant.controller.client.kube import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, Document, Resource
from cotenant.controller.informers.job_record import JobId, JobRecord
from cotenant.core.model.objects import Job

ClaimKey = tuple[str, str]
"""Namespace and name."""
_SELECTOR: Final = ""
"""In the place of a claim's name: the namespace's node selector."""
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class MountedClaim:
    """A claim that a job mounts, or its namespace's selector, and what restricts its nodes."""

    name: str
    claim: Claim
    volume: BoundVolume | None
    nodes: frozenset[str] | None
    """Nodes that fit the volume; None if there is no volume yet."""


class VolumeIndex:
    def __init__(self) -> None:
        self._claims: dict[ClaimKey, Claim] = {}
        self._volumes: dict[str, BoundVolume] = {}
        self._labels: dict[str, Labels] = {}
        """Node → its labels."""
        self._claims_of: dict[JobId, frozenset[ClaimKey]] = {}
        """Job → claims that it mounts, even if they do not exist."""
        self._jobs_of: dict[ClaimKey, set[JobId]] = {}
        self._bound_to: dict[str, set[ClaimKey]] = {}
        """Volume, even if it does not exist → claims that name it."""
        self._alike: Counter[BoundVolume] = Counter()
        """Volumes by their node restriction: all volumes of a zone have the same."""
        self._fitting: dict[BoundVolume, frozenset[str]] = {}
        """Nodes that fit volumes that jobs have asked for."""

    def put(self, resource: Resource, key: str, document: Document) -> frozenset[JobId]:
        """Take in a claim, a volume or a namespace. Returns the jobs whose places may have changed."""
        if resource == NAMESPACES:
            return self._set_selector(key, to_node_selector(document))
        if resource == PERSISTENT_VOLUME_CLAIMS:
            return self._set_claim(_claim_key(key), to_claim(document))
        return self._set_volume(key, to_volume(document))

    def drop(self, resource: Resource, key: str) -> frozenset[JobId]:
        """Forget a claim, a volume or a namespace. Returns the jobs whose places may have changed."""
        if resource == NAMESPACES:
            return self._set_selector(key, None)
        if resource == PERSISTENT_VOLUME_CLAIMS:
            return self._set_claim(_claim_key(key), None)
        return self._set_volume(key, None)

    def put_node(self, name: str, labels: Labels | None) -> frozenset[JobId]:
        """Take in the labels of a node; None if it is gone. Returns the jobs whose places may have changed."""
        before = self._labels.pop(name, None)
        if labels is not None:
            self._labels[name] = labels
        if before == labels:
            return frozenset()
        differ = set[BoundVolume]()
        for volume, nodes in self._fitting.items():
            fits = labels is not None and volume.fits(name, labels)
            if fits != (name in nodes):
                self._fitting[volume] = nodes | {name} if fits else nodes - {name}
                differ.add(volume)
        if not differ:
            return frozenset()
        return self._jobs_on(name for name in self._bound_to if self._volumes.get(name) in differ)

    def put_job(self, record: JobRecord) -> None:
        """Remember which claims it mounts. A spec that cannot be read mounts none."""
        mounted = claims_of(record.job.spec) if record.job is not None else {}
        claims = frozenset((record.namespace, name) for name in (_SELECTOR, *mounted))
        before = self._claims_of.get(record.id, frozenset())
        if claims == before:
            return
        for key in before - claims:
            _discard(self._jobs_of, key, record.id)
        for key in claims - before:
            self._jobs_of.setdefault(key, set()).add(record.id)
        self._claims_of[record.id] = claims

    def drop_job(self, job: JobId) -> None:
        for key in self._claims_of.pop(job, ()):
            _discard(self._jobs_of, key, job)

    def mounted(self, namespace: str, spec: TrainingJobSpec) -> tuple[MountedClaim, ...]:
        """What a job of this namespace mounts, of what exists. `place` looks at nothing else."""
        keys = ((namespace, name) for name in (_SELECTOR, *sorted(claims_of(spec))))
        return tuple(self._mounted(key[1], self._claims[key]) for key in keys if key in self._claims)

    def place(self, job: Job, document: TrainingJob, mounted: Iterable[MountedClaim]) -> Job:
        """The job, restricted to nodes on which its pods can run. Raises DocumentError if no placement can ever do."""
        claims, volumes = {}, {}
        for one in mounted:
            claims[one.name] = one.claim
            if one.volume is not None:
                volumes[one.claim.volume] = one.volume
        chosen = claims.pop(_SELECTOR, None)
        selector = volumes.pop(chosen.volume, None) if chosen is not None else None
        return with_volumes(job, document, claims, volumes, self._nodes_of, selector=selector)

    def keeps_on_one_node(self, namespace: str, spec: TrainingJobSpec) -> bool:
        """True if a claim of the job can be mounted on one node alone."""
        reads = claims_of(spec)
        mounted = (one for one in self.mounted(namespace, spec) if one.name in reads)
        return any(keeps_on_one_node(one.claim, reads[one.name], one.volume) for one in mounted)

    def _mounted(self, name: str, claim: Claim) -> MountedClaim:
        volume = self._volumes.get(claim.volume) if claim.volume else None
        return MountedClaim(name, claim, volume, None if volume is None else self._nodes_of(volume))

    def _set_claim(self, key: ClaimKey, claim: Claim | None) -> frozenset[JobId]:
        before = self._claims.pop(key, None)
        if claim is not None:
            self._claims[key] = claim
        if before == claim:
            return frozenset()
        if before is not None:
            _discard(self._bound_to, before.volume, key)
        if claim is not None and claim.volume:
            self._bound_to.setdefault(claim.volume, set()).add(key)
        return frozenset(self._jobs_of.get(key, ()))

    def _set_selector(self, namespace: str, selector: BoundVolume | None) -> frozenset[JobId]:
        volume = f"{namespace}/"  # no PersistentVolume has such a name
        changed = self._set_volume(volume, selector)
        claim = Claim(frozenset(), volume) if selector is not None else None
        return changed | self._set_claim((namespace, _SELECTOR), claim)

    def _set_volume(self, name: str, volume: BoundVolume | None) -> frozenset[JobId]:
        before = self._volumes.pop(name, None)
        if volume is not None:
            self._volumes[name] = volume
        if before == volume:
            return frozenset()
        self._alike.update([volume] if volume is not None else [])
        if before is not None:
            self._alike[before] -= 1
            if not self._alike[before]:
                del self._alike[before]
                self._fitting.pop(before, None)
        return self._jobs_on((name,))

    def _jobs_on(self, volumes: Iterable[str]) -> frozenset[JobId]:
        claims = (key for volume in volumes for key in self._bound_to.get(volume, ()))
        return frozenset(job for key in claims for job in self._jobs_of.get(key, ()))

    def _nodes_of(self, volume: BoundVolume) -> frozenset[str]:
        if volume not in self._fitting:
            fit = (name for name, labels in self._labels.items() if volume.fits(name, labels))
            self._fitting[volume] = frozenset(fit)
        return self._fitting[volume]


def _claim_key(key: str) -> ClaimKey:
    namespace, _, name = key.partition("/")
    return namespace, name


def _discard(index: dict[_Key, set[_Value]], key: _Key, value: _Value) -> None:
    """Remove a value from the index, and its key with the last value."""
    if key in index:
        index[key].discard(value)
        if not index[key]:
            del index[key]
