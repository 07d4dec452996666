"""A launcher and a heartbeat for tests of counted steps: they record what the shim would send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class RecordingLauncher:
    """The methods of `LauncherClient` and `Heartbeat` that counting uses."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.activity: dict[str, Callable[[], int]] = {}
        self.counters: dict[str, int] = {}
        self.flushed: dict[str, int] = {}
        self.trainer = 0
        """The process that says of itself that it makes the steps."""

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def start(self) -> None:
        pass

    def flush_at_exit(self) -> None:
        self.flushed = dict(self.counters)

    def get_counter(self, name: str) -> int:
        return self.counters.get(name, 0)

    def set_counter(self, name: str, value: int) -> None:
        if name == "trainer":
            self.trainer = value
        else:
            self.counters[name] = value
