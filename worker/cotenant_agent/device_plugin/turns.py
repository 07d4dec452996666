"""The device plugin's part of the agent's loop.

A failure here never ends the agent. The path counts as available only if the Node, which the kubelet writes, shows
every resource as offered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cotenant_agent.device_plugin.node_capacity import disagreement
from cotenant_agent.device_plugin.offered_shares import OfferedShares, offered
from cotenant_agent.device_plugin.registration import Registration
from cotenant_agent.failures import Failures, Step
from cotenant_agent.reports.gpunode_client import UNREACHABLE, error_summary
from cotenant_agent.reports.node_view import NodeObserver, NodeView

CLAIMS: Final = "GPUs of this node are offered for ResourceClaims (path DeviceClaim), by which all are counted"
CONFIRMED_LOOK_S: Final = 60.0
LOOK_S: Final = 3.0
"""Pause between two looks at the Node: while it shows what was offered, and until it does."""


class PluginTurns:
    """Must be called by one thread, which is the agent's."""

    def __init__(
        self,
        read_node: Callable[[], dict[str, Any]],
        observer: NodeObserver,
        kubelet: Path,
        failures: Failures,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read_node, self._failures, self._clock = read_node, failures, clock
        self._registration = Registration(kubelet / "device-plugins")
        self._claims_offered = False
        self._shown = "the Node has not been looked at yet"
        self._looked_at = float("-inf")
        self._resources: frozenset[str] = frozenset()
        observer.no_shares = self.reason

    def turn(self, view: NodeView | None) -> None:
        """Bring what is offered up to date."""
        shares = None if view is None else offered(view)
        if view is None or shares is None:
            return
        try:
            self._claims_offered = not view.no_claims
            now = self._clock()
            shares = () if self._claims_offered else shares
            self._registration.turn(shares, now)
            self._look(shares, now)
        except Exception as error:
            self._failures.note(Step.DEVICE_PLUGIN, "shares of GPUs cannot be offered to the kubelet", error)

    def stop(self) -> None:
        self._registration.stop()

    def reason(self) -> str:
        """Why the kubelet does not count what pods request of GPUs; empty if it does."""
        if self._claims_offered:
            return CLAIMS
        return self._registration.reason or self._shown

    def _look(self, shares: tuple[OfferedShares, ...], now: float) -> None:
        resources = frozenset(one.resource for one in shares)
        confirmed = not self._shown and not self._registration.reason and resources == self._resources
        if now - self._looked_at < (CONFIRMED_LOOK_S if confirmed else LOOK_S):
            return
        self._looked_at, self._resources = now, resources
        try:
            self._shown = disagreement(self._read_node(), shares)
        except UNREACHABLE as error:
            if not confirmed:
                self._shown = f"the Node cannot be read: {error_summary(error)}"
