"""Keeps the cache in sync with the cluster: lists of all kinds, their watches, and a resync from time to time.

If a watch breaks, kopf lists the kind anew but does not say what was deleted meanwhile. So each kind that kopf lists
anew is listed here as well. A kind without a CustomResourceDefinition is looked for until it exists; then kopf starts
again. Composites and the decision log get each object after the cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from cotenant.controller.client.kube import (
    BOOKINGS,
    CLUSTER_PROFILES,
    NETWORK_POLICIES,
    PROFILES,
    QUOTA_REQUESTS,
    REMOTE_CLUSTERS,
    SESSIONS,
    SWEEPS,
    TRAINING_JOBS,
    Document,
    Kube,
    Listing,
    MissingKindError,
    Resource,
    UnreachableError,
    key_of,
)
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.feed import kopf_feed, reflector
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.settings import Settings
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.objects import JobKey

log = logging.getLogger(__name__)

OBSERVED: Final = (*kopf_feed.WATCHED, *reflector.REFLECTED)
"""Kinds that are observed with any settings."""

ADDED_LATER: Final = frozenset(
    {QUOTA_REQUESTS, BOOKINGS, REMOTE_CLUSTERS, PROFILES, CLUSTER_PROFILES, SESSIONS, SWEEPS}
)
"""Kinds that are new in a release. If an upgrade has not installed their definitions yet, they count as empty."""
MISSING_S: Final = 30.0
"""Pause between two looks for kinds that are missing."""
REOPEN_S = 2.0
RELIST_S: Final = 2.0
"""Pause after kopf starts to list a kind. Most of its list has arrived by then."""


class Listener(Protocol):
    """Gets every object and every list."""

    def put(self, resource: Resource, document: Document, deleted: bool) -> None: ...

    def replace(self, resource: Resource, listing: Listing) -> None: ...


class JobListener(Protocol):
    """Sees every job."""

    def on_job(self, record: JobRecord, *, deleted: bool = False) -> None: ...


class ClusterFeed:
    def __init__(
        self,
        *,
        kube: Kube,
        cache: ObjectCache,
        composites: Sequence[Listener],
        decision_recorder: JobListener,
        on_policy: Callable[[], None],
        metrics: Metrics,
        settings: Settings,
    ) -> None:
        self._kube, self._cache, self._composites = kube, cache, composites
        self._decision_recorder = decision_recorder
        self._on_policy = on_policy
        """Called when a NetworkPolicy changes."""
        self._metrics, self._settings = metrics, settings
        self.synced_at: float | None = None
        """Monotonic time of the last complete listing."""
        self._listed = asyncio.Event()
        self._missing: frozenset[Resource] = frozenset()
        """Kinds that the API server did not serve when it was last asked."""
        self._listed_by_kopf: dict[Resource, None] = {}
        """Kinds that kopf lists anew, and that have to be listed here too."""
        self._kopf_has_listed = asyncio.Event()
        self._watched = kopf_feed.watched(settings.device_claims)
        self._observed = (*self._watched, *reflector.REFLECTED)
        for resource in self._observed:
            metrics.unreadable.labels(resource.plural).set_function(partial(cache.unreadable_of, resource))

    def watches(self) -> dict[str, Coroutine[Any, Any, None]]:
        return {
            "feed": self.watch(),
            "deletions that kopf missed": self.list_after_kopf(),
            **{f"watch of {one.plural}": self._reflector(one).run() for one in reflector.REFLECTED},
        }

    async def resync(self) -> None:
        """List all kinds: add what the watches missed, and drop what is gone."""
        for resource in self._observed:
            self._replace(resource, await self._list(resource))
        self.synced_at = time.monotonic()
        self._listed.set()

    async def _list(self, resource: Resource) -> Listing:
        known = self._cache.newest_version(resource)
        try:
            listing = await self._kube.list(resource, name=reflector.REFLECTED.get(resource, ""))
        except MissingKindError:
            if resource not in ADDED_LATER:
                raise
            self._missing |= {resource}
            return Listing((), 0)
        self._missing -= {resource}
        return replace(listing, newer_than=known)

    def _replace(self, resource: Resource, listing: Listing) -> None:
        before = dict(self._cache.jobs) if resource == TRAINING_JOBS else {}
        self._cache.replace(resource, listing)
        if resource == TRAINING_JOBS:
            self._record_missed(before)
        for composite in self._composites:
            composite.replace(resource, listing)

    async def list_anew(self) -> None:
        """Call `resync` once the API server answers for all kinds."""
        while True:
            try:
                return await self.resync()
            except UnreachableError as error:
                log.warning("listing failed: %s", error)
                await asyncio.sleep(1.0)

    async def keep_in_sync(self) -> None:
        while True:
            await self.list_anew()
            await asyncio.sleep(self._settings.resync_s)

    async def watch(self) -> None:
        """Run kopf's watches, and start them again if they end: a CustomResourceDefinition may have been added or
        removed.
        """
        await self._listed.wait()
        while True:
            missing = self._missing
            served = [one for one in self._watched if one not in missing]
            parts = [asyncio.ensure_future(kopf_feed.run(self, served)), asyncio.ensure_future(self._come(missing))]
            try:
                await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
                if parts[0].done():
                    parts[0].result()
            except kopf_feed.FeedStoppedError as error:
                log.error("%s (%s); it begins anew when everything can be listed", error, error.__cause__)
            finally:
                for part in parts:
                    part.cancel()
            await asyncio.sleep(REOPEN_S)
            await self.list_anew()

    async def _come(self, missing: frozenset[Resource]) -> None:
        """Return once the API server serves one of these kinds."""
        while self._missing >= missing:
            await asyncio.sleep(MISSING_S)
            for resource in missing:
                with contextlib.suppress(UnreachableError):
                    await self._list(resource)

    def on_listed(self, resource: Resource) -> None:
        self._listed_by_kopf[resource] = None
        self._kopf_has_listed.set()

    async def list_after_kopf(self) -> None:
        """List kinds that kopf lists anew, to find objects deleted between kopf's broken watch and its list."""
        while True:
            await self._kopf_has_listed.wait()
            await asyncio.sleep(RELIST_S)
            self._kopf_has_listed.clear()
            listed, self._listed_by_kopf = self._listed_by_kopf, {}
            for resource in listed:
                try:
                    self._replace(resource, await self._list(resource))
                except UnreachableError as error:
                    log.warning("listing failed: %s", error)
                    self.on_listed(resource)

    def on_event(self, resource: Resource, document: Document, deleted: bool) -> None:
        self._metrics.events_seen.labels(resource.plural).inc()
        self._cache.put(resource, document, deleted)
        for composite in self._composites:
            composite.put(resource, document, deleted)
        if resource == TRAINING_JOBS:
            self._on_job(document, deleted=deleted)
        if resource == NETWORK_POLICIES:
            self._on_policy()

    def _record_missed(self, before: Mapping[JobKey, JobRecord]) -> None:
        """Record in the decision log what no watch reported: deleted jobs, and new phases."""
        for record in before.values():
            if self._cache.job(record.id) is None:
                self._decision_recorder.on_job(record, deleted=True)
        for record in self._cache.jobs.values():
            self._decision_recorder.on_job(record)

    def _on_job(self, document: Document, *, deleted: bool) -> None:
        record = read_job(document) if deleted else self._cache.jobs.get(key_of(document["metadata"]))
        if record is not None:
            self._decision_recorder.on_job(record, deleted=deleted)

    def _reflector(self, resource: Resource) -> reflector.Reflector:
        name = reflector.REFLECTED[resource]
        return reflector.Reflector(
            kube=self._kube, resource=resource, replace=self._replace, put=self.on_event, name=name
        )
