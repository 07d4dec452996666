"""Leader election among the replicas, by a coordination Lease.

A candidate takes the Lease when it has watched it unchanged for `lease_s` on its own clock, so clocks need not agree.
A leader that could not renew for `renew_deadline_s` stops leading by itself, well before anybody else may start:

    last renewal sent ── renew_deadline_s ──> old leader stops ── gap ──> lease_s ──> new leader may start

The client checks `is_leader` at the last moment before it sends, so a write is sent before the gap begins, and the gap
is the time that it has to arrive. The Lease is released on SIGTERM: a planned restart does not wait at all.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime

from cotenant.controller.client.kube import LEASES, Document, Kube, Outcome, Reply, StaleTrustError, UnreachableError

log = logging.getLogger(__name__)

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Failover after a kill takes at most lease_s + poll_s and one round trip: 8.5 s."""

    lease_s: float = 7.5
    renew_deadline_s: float = 6.0
    poll_s: float = 0.8


@dataclass(slots=True)
class _Observed:
    """Lease as a candidate last saw it, and since when it has not changed, on the candidate's clock."""

    version: str = ""
    since: float = 0.0
    other_led_at: float = -math.inf
    """Clock time at which another replica was last seen to hold it."""


@dataclass(slots=True)
class LeaderElector:
    kube: Kube
    _: KW_ONLY
    namespace: str
    name: str
    identity: str
    """Of the process, not of the pod: what a killed process sent may still be on its way."""
    times: LeaseTimes = LeaseTimes()
    clock: Clock = time.monotonic
    _on_change: Callable[[bool], None] = lambda is_leader: None
    _leads_until: float = 0.0
    _was_leader: bool = False
    _observed: _Observed = field(default_factory=_Observed)
    _held: Document | None = None
    """The Lease as this replica last wrote it: renewed in one round trip."""

    @property
    def is_leader(self) -> bool:
        """True only while no other replica can have taken over. It costs little, so every write may ask."""
        return self.clock() < self._leads_until

    async def run(self, on_change: Callable[[bool], None]) -> None:
        """Acquire and renew the Lease until cancelled; `on_change` gets every change of `is_leader`.

        An unreachable server may cost leadership, but never ends the process. A renewed certificate authority does:
        the process starts again and trusts it.
        """
        self._on_change = on_change
        while True:
            try:
                async with asyncio.timeout(self.times.renew_deadline_s):
                    await self.try_acquire_or_renew()
            except StaleTrustError:
                raise
            except (UnreachableError, TimeoutError) as error:
                reason = str(error) or f"no answer within {self.times.renew_deadline_s:g} s"
                log.warning("lease %s/%s cannot be renewed: %s", self.namespace, self.name, reason)
            self._notify()
            await asyncio.sleep(self.times.poll_s)

    async def try_acquire_or_renew(self) -> None:
        """Renew with one write while this replica holds it; else read the Lease, and write if it is free or expired."""
        asked_at = self.clock()
        if self._held is not None:
            renewed = await self._write(self._held)
            self._record(renewed, asked_at)
            if renewed.done and self.is_leader:
                return
        asked_at = self.clock()
        reply = await self.kube.get(LEASES, self.name, self.namespace)
        if reply.outcome is Outcome.MISSING:
            if not self._other_has_stopped():
                return
            written = await self.kube.create(LEASES, self._document(transitions=0), self.namespace)
        elif not reply.done:
            log.error("lease %s/%s cannot be read: %s", self.namespace, self.name, reply.message)
            return
        elif self._may_acquire(reply.document):
            written = await self._write(reply.document)
        else:
            self._leads_until, self._held = 0.0, None
            return
        self._record(written, asked_at)

    async def release(self) -> None:
        """Release the Lease at once, so that another replica need not wait for it to expire."""
        if not self.is_leader:
            return
        self._leads_until, self._held = 0.0, None
        self._notify()
        reply = await self.kube.get(LEASES, self.name, self.namespace)
        if reply.done and reply.document["spec"].get("holderIdentity") == self.identity:
            body = {
                "metadata": {"resourceVersion": reply.document["metadata"]["resourceVersion"]},
                "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()},
            }
            await self.kube.patch(LEASES, self.name, body, namespace=self.namespace)

    def _may_acquire(self, lease: Document) -> bool:
        holder = lease["spec"].get("holderIdentity") or ""
        version = str(lease["metadata"]["resourceVersion"])
        if version != self._observed.version:
            self._observed = _Observed(version, self.clock(), self._observed.other_led_at)
        if not holder:
            return "leaseDurationSeconds" in lease["spec"] or self._other_has_stopped()
        if holder != self.identity:
            self._observed.other_led_at = self.clock()
        return holder == self.identity or self.clock() - self._observed.since >= self.times.lease_s

    def _other_has_stopped(self) -> bool:
        """Check that the last other holder seen must have stopped by now.

        A Lease that was deleted, or replaced by an empty one, was not released: its holder may lead on for a moment,
        as when the server cannot be reached.
        """
        return self.clock() - self._observed.other_led_at >= self.times.lease_s

    async def _write(self, lease: Document) -> Reply:
        spec = lease["spec"]
        holds = spec.get("holderIdentity") == self.identity
        document = self._document(transitions=int(spec.get("leaseTransitions") or 0) + (0 if holds else 1))
        if holds:
            del document["spec"]["acquireTime"]
        document["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"]
        return await self.kube.patch(LEASES, self.name, document, namespace=self.namespace)

    def _record(self, written: Reply, asked_at: float) -> None:
        """Lead from `asked_at`, the time before the request: the server may have written any time after that."""
        self._notify()  # it may have stopped leading while it waited for the answer: that is a change, and this another
        self._held = written.document if written.done else None
        if written.outcome is not Outcome.CONFLICT:  # often a first attempt of its own: its time goes on
            self._leads_until = asked_at + self.times.renew_deadline_s if written.done else 0.0
        if written.outcome is Outcome.REFUSED:
            log.error("lease %s/%s cannot be written: %s", self.namespace, self.name, written.message)

    def _notify(self) -> None:
        if self.is_leader != self._was_leader:
            self._was_leader = self.is_leader
            log.info("%s %s", self.identity, "leads" if self._was_leader else "does not lead any more")
            self._on_change(self._was_leader)

    def _document(self, *, transitions: int) -> Document:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": int(self.times.lease_s),
                "acquireTime": _now(),
                "renewTime": _now(),
                "leaseTransitions": transitions,
            },
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
