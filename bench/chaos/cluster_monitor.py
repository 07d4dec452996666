"""Observation of a cluster during a fault run: the invariants, and a log of every job's status."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from bench.chaos.cluster_invariants import Invariants, Observation, key_of, observe
from cotenant_local.host.api_client import Api, ApiError

INTERVAL_S = 1.0


@dataclass(slots=True)
class ClusterMonitor:
    """Observe every INTERVAL_S until `stop`; keep the newest observation and the first violation, log changes."""

    api: Api
    begun: float = field(default_factory=time.monotonic)
    newest: Observation | None = None
    violation: str = ""
    _logged: dict[str, str] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        invariants, capacity = Invariants(), dict[str, int]()
        while not self._over.wait(INTERVAL_S):
            try:
                observation = observe(self.api, time.monotonic(), capacity)
            except (ApiError, OSError):
                invariants.since.clear()  # what was not observed may have been mended meanwhile
                continue
            self._log_changes(observation)
            self.newest = observation
            self.violation = self.violation or invariants.violation(observation)

    def stop(self) -> None:
        self._over.set()

    def log(self, text: str) -> None:
        print(f"{time.monotonic() - self.begun:7.1f} {text}", flush=True)

    def _log_changes(self, observation: Observation) -> None:
        for job in observation.jobs:
            status = job.get("status", {})
            line = f"{status.get('phase')} {status.get('reason')}: {status.get('message')}"
            now = f"attempt {status.get('attempts', 0)} {line}"
            if self._logged.get(key_of(job)) != now:
                self._logged[key_of(job)] = now
                self.log(f"    {key_of(job)} {now[:400]}")
