"""Successive decisions, each starting from the last. A cycle in which nothing changed costs very little."""

from __future__ import annotations

from cotenant.core.model.plan import Plan
from cotenant.core.policy import Policy
from cotenant.core.scheduling.decision import Decision
from cotenant.core.scheduling.scheduler import decide
from cotenant.core.snapshot.snapshot import Snapshot


class Decisions:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._last: Decision | None = None

    def __call__(self, snapshot: Snapshot) -> Plan:
        """The plan for this snapshot; the same object as before if it still holds."""
        self._last = decide(snapshot, self._policy, self._last)
        return self._last.plan
