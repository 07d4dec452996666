"""Nodes whose container runtime, kubelet or CUDA fails jobs of several tenants. They take nothing new for a while.

One failure may be the job's own. Failures of two tenants on one node mean the node, for instance a driver that was
upgraded under a running kernel, or a device plugin that a lost GPU confuses. Otherwise such a node, which is always
free, would draw in one job after the other. The statuses of jobs record which nodes
they avoid, so a new leader knows the same. After that time the node is tried again.
"""

from __future__ import annotations

from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.policies.blocked_start import GPUS_UNUSABLE, RUNTIME_FAILED

FAILED = (RUNTIME_FAILED, GPUS_UNUSABLE, "UnexpectedAdmissionError")
"""How the reason for an excluded node begins. The kubelet's other refusals may hit one size of pods alone."""
TENANTS = 2
"""Number of tenants whose jobs have to fail on a node."""


class RuntimeFailures:
    def __init__(self) -> None:
        self._until: dict[str, dict[str, float]] = {}
        """Node → namespace of a job that failed there → Unix time until which that counts."""
        self._failing: set[str] = set()
        """Nodes that take nothing new."""

    def note(self, record: JobRecord) -> None:
        """Update from the nodes that the status of a job says it avoids."""
        for one in record.status.excluded_nodes:
            if one.reason.startswith(FAILED):
                known = self._until.setdefault(one.node, {})
                known[record.namespace] = max(known.get(record.namespace, 0.0), one.until.timestamp())

    def changed(self, now: float) -> set[str]:
        """Nodes that began or ceased to fail since the last call."""
        before = self._failing
        self._until = {
            node: current
            for node, known in self._until.items()
            if (current := {namespace: until for namespace, until in known.items() if until > now})
        }
        self._failing = {node for node, known in self._until.items() if len(known) >= TENANTS}
        return before ^ self._failing

    def why(self, node: str) -> str:
        """Reason why the node takes nothing new; empty if it does."""
        if node not in self._failing:
            return ""
        return f"its kubelet, its container runtime or CUDA failed jobs of {len(self._until[node])} tenants"

    @property
    def nodes(self) -> dict[str, str]:
        """Failing node → the reason."""
        return {node: self.why(node) for node in self._failing}
