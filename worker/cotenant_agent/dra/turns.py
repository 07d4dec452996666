"""The DRA driver's part of the agent's loop. It starts with the first view of the node; a failure never ends
the agent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from cotenant_agent.dra.driver import ClaimNamespaces, Driver, DriverFolders
from cotenant_agent.dra.resource_client import ResourceClient
from cotenant_agent.failures import Failures, Step
from cotenant_agent.reports.node_view import NodeObserver, NodeView


class DriverTurns:
    """Must be called by one thread, which is the agent's."""

    def __init__(
        self,
        read_node: Callable[[], dict[str, Any]],
        observer: NodeObserver,
        folders: DriverFolders,
        failures: Failures,
        stop: threading.Event,
    ) -> None:
        self._read_node, self._observer, self._failures, self._stop = read_node, observer, failures, stop
        self._folders = folders
        self._driver: Driver | None = None
        self.namespaces = ClaimNamespaces()
        observer.no_claims = self.reason

    def turn(self, view: NodeView | None) -> None:
        if view is None:
            return
        try:
            if self._driver is None:
                self._driver = self._started(view)
            self._driver.turn(view, time.monotonic())
        except Exception as error:
            self._failures.note(Step.DRA, "GPUs cannot be offered for ResourceClaims", error)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.stop()

    def reason(self) -> str:
        """Why pods cannot get GPUs of this node by claims; empty if they can."""
        return "the driver has not started yet" if self._driver is None else self._driver.reason()

    def _started(self, view: NodeView) -> Driver:
        node = self._read_node()
        client = ResourceClient(node["metadata"]["name"], self._failures)
        running: Callable[[], frozenset[str] | None] = self._observer.running
        driver = Driver(node, client, self._folders, running)
        driver.namespaces = self.namespaces
        driver.start(view.inventory.gpus)
        self._observer.claimed = driver.claimed
        threading.Thread(target=client.watch, args=(self._stop,), name="resource-slices", daemon=True).start()
        return driver
