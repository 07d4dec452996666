"""Looks at the daemons of this node, in a thread, and says what keeps shares of compute from being limited."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from cotenant_agent.enforcement.compute_limits import AskedShare, DaemonReading
from cotenant_agent.failures import Failures, Step
from cotenant_agent.gpus import capabilities
from cotenant_agent.mps.namespaces import ComputeNamespaces
from cotenant_agent.reports.node_view import MpsSource, NodeObserver, NodeView
from cotenant_agent.reports.published_limits import compute_missing

LOOK_S: Final = 2.0


class MpsTurns(MpsSource):
    """What the observer asks of MPS. Each look starts some processes, so it runs in a thread of its own."""

    def __init__(self, namespaces: ComputeNamespaces, observer: NodeObserver, failures: Failures) -> None:
        self.namespaces = namespaces
        self._observer, self._failures = observer, failures
        observer.mps = self
        self._able = False
        namespaces.starting = lambda: self._able

    def look(self, stop: threading.Event) -> None:
        """Look at the daemons until `stop`. After a change it looks soon, so that no new server counts as a
        stranger.
        """
        while not stop.is_set():
            self.namespaces.changed.wait(LOOK_S)
            self.namespaces.changed.clear()
            try:
                self.namespaces.look()
            except Exception as error:  # the thread lives as long as the agent
                self._failures.note(Step.MPS, "the daemons of MPS", error)

    def asked(self) -> tuple[AskedShare, ...]:
        return self.namespaces.asked()

    def readings(self) -> Mapping[str, DaemonReading]:
        return self.namespaces.readings

    def reason(self) -> str:
        """Why new pods get no namespaces on this node; empty if they do."""
        missing = capabilities.mps_missing(self._observer.inventory)
        if no_claims := self._observer.no_claims():
            missing = (*missing, f"a pod gets its namespace by its ResourceClaim, and {no_claims}")
        if wrong := self.namespaces.reason():
            missing = (*missing, wrong)
        return "; ".join(missing)

    def stop(self) -> None:
        """Does nothing: daemons go on without the agent."""

    def turn(self, view: NodeView | None) -> None:
        """Note whether MPS may be started on more GPUs of the node."""
        self._able = view is not None and not compute_missing(view)
