"""The progress of jobs while a page was open. A job's status has the latest figure alone, so the page collects them."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any, Final

from cotenant.dashboard.reading.rows import instant

POINTS_MAX: Final = 720
JOBS_MAX: Final = 32


class ProgressTraces:
    """Points (Unix seconds, step) of some jobs, by uid, in the order in which they were seen."""

    def __init__(self) -> None:
        self._points: OrderedDict[str, deque[tuple[float, int]]] = OrderedDict()

    def note(self, document: Mapping[str, Any]) -> None:
        progress = (document.get("status") or {}).get("progress") or {}
        uid, at, step = str(document["metadata"].get("uid")), instant(progress.get("updatedAt")), progress.get("step")
        if at is None or not isinstance(step, int):
            return
        points = self._points.setdefault(uid, deque(maxlen=POINTS_MAX))
        self._points.move_to_end(uid)
        if not points or points[-1][0] < at:
            points.append((at, step))
        while len(self._points) > JOBS_MAX:
            self._points.popitem(last=False)

    def points(self, uid: str) -> tuple[tuple[float, int], ...]:
        return tuple(self._points.get(uid, ()))
