"""When each agent was last heard, measured by when a change of its report was seen.

The time inside the report is not used: an agent's clock may be wrong, and a heartbeat from the future would keep a node
ready for that long. A new leader has seen no change yet. It uses the time at which the API server stored the status,
and then waits for the next change.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Heard:
    beat: float | None
    at: float | None
    stale_after_s: float


class AgentHeartbeats:
    """Times are Unix seconds."""

    def __init__(self) -> None:
        self._heard: dict[str, _Heard] = {}
        """By node."""

    def note(
        self, node: str, beat: float | None, written_at: float | None, now: float, stale_after_s: float = 60.0
    ) -> None:
        """Take in the heartbeat of a status. `written_at`: when the API server stored the status, if it says so.
        The agent counts as silent if no other heartbeat comes within `stale_after_s`.
        """
        known = self._heard.get(node)
        if known is not None and known.beat == beat:
            return
        at: float | None = now
        if beat is None:
            at = None
        elif known is None and written_at is not None:
            at = min(now, written_at)
        elif known is None:
            at = beat if beat <= now else None
        self._heard[node] = _Heard(beat, at, stale_after_s)

    def is_fresh(self, node: str, now: float) -> bool:
        heard = self._heard.get(node)
        return heard is not None and heard.at is not None and now - heard.at <= heard.stale_after_s

    def forget(self) -> None:
        """Forget all heartbeats: none was seen while another replica led."""
        self._heard.clear()
