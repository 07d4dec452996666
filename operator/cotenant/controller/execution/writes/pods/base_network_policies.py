"""Keeps a base NetworkPolicy in every namespace in which a job of one pod runs or is about to run.

One object for the namespace replaces one for each such job, which halves the writes of an admission. It is watched, and
restored if somebody removes or edits it. A job goes without a NetworkPolicy of its own only if the whole base was seen
in force, so its pods are isolated from their first moment.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from cotenant import names
from cotenant.controller.client.kube import NETWORK_POLICIES, Document, Kube, Outcome, UnreachableError
from cotenant.controller.client.merge_patch import difference
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.manifests.side_objects import base_network_policy
from cotenant.controller.settings import Settings
from cotenant.controller.telemetry.logs import shorten
from cotenant.core.model.lifecycle import HOLDING

log = logging.getLogger(__name__)

LOOK_S: Final = 5.0
"""Longest pause between two looks."""
PAUSE_S: Final = 0.5
"""Pause after each look. If another writer keeps undoing the base, two writes a second are enough."""
REFUSED_S: Final = 60.0
"""Pause in a namespace in which the API server refused the base."""


@dataclass(slots=True)
class BaseNetworkPolicies:
    kube: Kube
    cache: ObjectCache
    settings: Settings
    _: KW_ONLY
    leadership: Leadership
    clock: Callable[[], float] = time.time
    _wake_up: asyncio.Event = field(default_factory=asyncio.Event)
    _asked_for: set[str] = field(default_factory=set)
    """Namespaces in which a job of one pod was admitted before the base was there."""
    _refused_until: dict[str, float] = field(default_factory=dict)
    """Namespace → Unix seconds."""

    def is_in_force(self, namespace: str) -> bool:
        """True if the API server has the base as it should be. If not, it is made soon.

        A base with an owner does not count: it would be deleted together with that owner.
        """
        found = self.cache.base_network_policies.get(namespace)
        passing = {"deletionTimestamp", "ownerReferences"}
        if found is not None and not passing & found["metadata"].keys() and not self._change(found):
            return True
        self._asked_for.add(namespace)
        self.look()
        return False

    def look(self) -> None:
        """Look at the base again: it may have changed."""
        self._wake_up.set()

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._wake_up.wait()
            except TimeoutError:
                pass
            self._wake_up.clear()
            if self.leadership.held:
                await self.put_back()
            await asyncio.sleep(PAUSE_S)

    async def put_back(self) -> None:
        """Make the base where it is needed and missing, and mend it where it was changed."""
        for namespace in sorted(self._asked_for | set(self._relied_on())):
            found = self.cache.base_network_policies.get(namespace)
            if found is not None and not self._change(found):
                self._asked_for.discard(namespace)
            elif self.clock() >= self._refused_until.get(namespace, 0.0):
                try:
                    await self._write(namespace, found)
                except UnreachableError as error:
                    log.warning("the base NetworkPolicy of %s: %s; tried again soon", namespace, error)

    def _relied_on(self) -> Iterator[str]:
        """Namespaces in which a job of one pod holds GPUs."""
        return (one.namespace for one in self.cache.jobs.values() if one.phase in HOLDING and _is_one_pod(one))

    async def _write(self, namespace: str, found: Document | None) -> None:
        if found is None:
            wanted = base_network_policy(namespace, self.settings)
            reply = await self.kube.create(NETWORK_POLICIES, wanted, namespace)
            if reply.outcome is Outcome.EXISTS:
                reply = await self.kube.get(NETWORK_POLICIES, names.BASE_NETWORK_POLICY, namespace)
        else:
            log.warning("the base NetworkPolicy of %s was changed; it is put back", namespace)
            change, name = self._change(found), names.BASE_NETWORK_POLICY
            reply = await self.kube.patch(NETWORK_POLICIES, name, change, namespace=namespace)
        if reply.done:
            self.cache.put(NETWORK_POLICIES, reply.document)
        elif found is not None and reply.outcome is Outcome.MISSING:
            self.cache.remove(NETWORK_POLICIES, namespace, names.BASE_NETWORK_POLICY, found["metadata"]["uid"])
            self.look()
        else:
            self._asked_for.discard(namespace)
            self._refused_until[namespace] = self.clock() + REFUSED_S
            log.error(
                "the base NetworkPolicy of %s was refused (%d): %s", namespace, reply.code, shorten(reply.message)
            )

    def _change(self, found: Document) -> Document:
        """Merge patch that restores the base; empty if nothing is wrong."""
        wanted, metadata = base_network_policy("", self.settings), found["metadata"]
        change: Document = {}
        if spec := difference(found.get("spec") or {}, wanted["spec"]):
            change["spec"] = spec
        labels: Document = wanted["metadata"]["labels"]
        if not labels.items() <= (metadata.get("labels") or {}).items():
            change["metadata"] = {"labels": labels}
        return change


def _is_one_pod(record: JobRecord) -> bool:
    placement, spec = record.status.placement, record.job.spec if record.job else None
    alone = spec is None or spec.evaluator is None
    return alone and placement is not None and len(placement.nodes) + (placement.servers or 0) == 1
