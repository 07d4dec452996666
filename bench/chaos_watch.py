"""Looks at a cluster all the time while bench/chaos_cluster.py breaks it: the rules, and the story of every job."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from chaos_rules import Rules, View, key_of, look

from cotenant_local.host.api_client import Api, ApiError

LOOK_S = 1.0


@dataclass(slots=True)
class Watch:
    """Looks all the time, in a thread of its own; keeps the newest view, the first broken rule and the story."""

    api: Api
    begun: float = field(default_factory=time.monotonic)
    newest: View | None = None
    broken: str = ""
    _told: dict[str, str] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        rules, capacity = Rules(), dict[str, int]()
        while not self._over.wait(LOOK_S):
            try:
                view = look(self.api, time.monotonic(), capacity)
            except (ApiError, OSError):
                rules.since.clear()  # nobody can be blamed for what was not seen
                continue
            self._tell(view)
            self.newest = view
            self.broken = self.broken or rules.broken(view)

    def stop(self) -> None:
        self._over.set()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.begun:7.1f} {text}", flush=True)

    def _tell(self, view: View) -> None:
        for job in view.jobs:
            status = job.get("status", {})
            line = f"{status.get('phase')} {status.get('reason')}: {status.get('message')}"
            now = f"attempt {status.get('attempts', 0)} {line}"
            if self._told.get(key_of(job)) != now:
                self._told[key_of(job)] = now
                self.say(f"    {key_of(job)} {now[:400]}")
