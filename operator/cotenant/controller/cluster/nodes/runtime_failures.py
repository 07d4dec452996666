"""Nodes whose container runtime, kubelet or CUDA fails jobs of several tenants. They take nothing new for a while.

One failure may be the job's own. Failures of two tenants on one node mean the node, for instance a driver that was
upgraded under a running kernel, or a device plugin that a lost GPU confuses. Otherwise such a node, which is always
free, would draw in one job after the other. That CUDA does not work is a pod's own word, which a tenant can forge: it
counts only if the tenants are of two queues that serve them. The statuses of jobs record which nodes they avoid, so a
new leader knows the same. After that time the node is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.policies.blocked_start import GPUS_UNUSABLE, RUNTIME_FAILED

FAILED = (RUNTIME_FAILED, GPUS_UNUSABLE, "UnexpectedAdmissionError")
"""How the reason for an excluded node begins. The kubelet's other refusals may hit one size of pods alone."""
TENANTS = 2
"""Number of tenants whose jobs have to fail on a node."""


class _Failure(NamedTuple):
    namespace: str
    queue: str
    """Empty if the job's queue does not serve the namespace. A tenant may write any name into a job that waits."""
    is_proven: bool
    """True if the kubelet says so."""


def _agree(failures: Iterable[_Failure]) -> bool:
    every = list(failures)
    if len({one.namespace for one in every if one.is_proven}) >= TENANTS:
        return True
    served = [one for one in every if one.queue]
    return min(len({one.namespace for one in served}), len({one.queue for one in served})) >= TENANTS


class RuntimeFailures:
    def __init__(self) -> None:
        self._until: dict[str, dict[_Failure, float]] = {}
        """Node → failure there → Unix time until which that counts."""
        self._failing: set[str] = set()
        """Nodes that take nothing new."""

    def note(self, record: JobRecord, queue: str) -> None:
        """Update from the nodes that the status of a job says it avoids. `queue`: the one that serves it, or empty."""
        for one in record.status.excluded_nodes:
            if one.reason.startswith(FAILED):
                known = self._until.setdefault(one.node, {})
                failure = _Failure(record.namespace, queue, not one.reason.startswith(GPUS_UNUSABLE))
                known[failure] = max(known.get(failure, 0.0), one.until.timestamp())

    def changed(self, now: float) -> set[str]:
        """Nodes that began or ceased to fail since the last call."""
        before = self._failing
        self._until = {
            node: current
            for node, known in self._until.items()
            if (current := {failure: until for failure, until in known.items() if until > now})
        }
        self._failing = {node for node, known in self._until.items() if _agree(known)}
        return before ^ self._failing

    def why(self, node: str) -> str:
        """Reason why the node takes nothing new; empty if it does."""
        if node not in self._failing:
            return ""
        tenants = len({failure.namespace for failure in self._until[node]})
        return f"its kubelet, its container runtime or CUDA failed jobs of {tenants} tenants"

    @property
    def nodes(self) -> dict[str, str]:
        """Failing node → the reason."""
        return {node: self.why(node) for node in self._failing}
