"""Activity of an application, from its answers about itself. Pure.

Activity is a kernel that computes, a terminal that prints, and what a person runs or types there. An open page in a
browser is none, because it polls its server all night.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

GRAIN_S: Final = 15.0
"""Times are rounded up to steps of this length, because each new value is a write of the job's status."""


@dataclass(frozen=True, slots=True)
class Activity:
    busy: bool
    active_at: float | None
    """Unix seconds; None if nothing has happened yet."""

    def rounded(self) -> Activity:
        """Activity as it is reported. For a busy application, the time adds nothing."""
        if self.busy or self.active_at is None:
            return Activity(self.busy, None)
        return Activity(False, -(-self.active_at // GRAIN_S) * GRAIN_S)


def of_jupyter(kernels: Any, terminals: Any) -> Activity:
    """Activity from the answers to `/api/kernels` and `/api/terminals`."""
    entries = [*_entries(kernels), *_entries(terminals)]
    busy = any(one.get("execution_state") == "busy" for one in _entries(kernels))
    times = [at for one in entries if (at := unix_seconds(one.get("last_activity"))) is not None]
    return Activity(busy, max(times, default=None))


def of_code_server(health: Any) -> Activity:
    """Activity from the answer to `/healthz`: "alive" while somebody works in it, else "expired"."""
    beat = health.get("lastHeartbeat") if isinstance(health, Mapping) else None
    at = beat / 1000 if isinstance(beat, int | float) and not isinstance(beat, bool) and beat > 0 else None
    return Activity(isinstance(health, Mapping) and health.get("status") == "alive", at)


def of_terminals(used_at: Iterable[float]) -> Activity:
    """Activity from the times at which the terminals of a pod were last read or written."""
    return Activity(False, max(used_at, default=None))


def unix_seconds(text: Any) -> float | None:
    """Unix seconds of a time as Jupyter writes it: `2026-01-01T12:00:00.000000Z`."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _entries(answer: Any) -> list[Mapping[str, Any]]:
    return [one for one in answer if isinstance(one, Mapping)] if isinstance(answer, list) else []
