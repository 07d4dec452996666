"""Bytes of the job's data that all its pods have fetched. No clock of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant_worker.supervision.messages import PodStaging


@dataclass(slots=True)
class StagedBytes:
    pods: dict[int, PodStaging] = field(default_factory=dict)
    """The latest report of each pod."""
    began_at: float | None = None
    """Unix seconds."""
    ended_at: float | None = None
    """When the last pod finished of those that had begun by then."""

    def record(self, event: PodStaging, now: float) -> None:
        """Store the report of a pod at `now`, in Unix seconds. A report after the pod's end is ignored."""
        known = self.pods.get(event.pod)
        if known is not None and known.done:
            return
        self.pods[event.pod] = event
        self.began_at = now if self.began_at is None else self.began_at
        self.ended_at = now

    @property
    def unfinished(self) -> bool:
        return any(not one.done for one in self.pods.values())

    @property
    def fetched_bytes(self) -> int:
        return sum(one.fetched_bytes for one in self.pods.values())

    @property
    def of_bytes(self) -> int:
        return sum(one.of_bytes for one in self.pods.values())

    @property
    def seconds(self) -> float:
        """Seconds from the first report of the first pod to the last report."""
        if self.began_at is None or self.ended_at is None:
            return 0.0
        return max(0.0, round(self.ended_at - self.began_at, 3))  # the clock may have been set back
