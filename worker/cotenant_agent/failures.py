"""Failures that the agent survives: one failing pod, poll or turn stops nothing else.

A failure is logged with its traceback the first time, and counted every time, by the step in which it occurred.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

log = logging.getLogger("cotenant.agent")

LOGGED_MAX: Final = 1024
"""This many different failures are remembered as logged."""


class Step(StrEnum):
    POD = "pod"
    """Reading one pod of this node."""
    WATCH = "watch"
    """Following the pods of this node."""
    POLL = "poll"
    EVENTS = "events"
    """Waiting for events of the driver."""
    RESET = "reset"
    """Resetting a GPU."""
    DRA = "dra"
    """Publishing GPUs for ResourceClaims."""
    DEVICE_PLUGIN = "device_plugin"
    """Offering shares of GPUs to the kubelet."""
    MPS = "mps"
    """Speaking with the daemons of MPS."""
    TURN = "turn"
    """Bringing the GPUNode up to date."""


class Failures:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counter(dict.fromkeys(Step, 0))
        self._logged: dict[str, None] = {}

    def note(self, step: Step, what: str, error: Exception) -> None:
        """Count a failure. `what` names the pod or the thread."""
        text = "".join(c if c.isprintable() else "�" for c in f"{what}: {type(error).__name__}: {error}")[:300]
        with self._lock:
            self._counts[step] += 1
            known = text in self._logged
            if len(self._logged) >= LOGGED_MAX:
                self._logged.clear()
            self._logged[text] = None
        if not known:
            log.error("%s; the agent goes on", text, exc_info=error)

    def counts(self) -> Mapping[Step, int]:
        """Number of failures of each step since the start."""
        with self._lock:
            return dict(self._counts)
