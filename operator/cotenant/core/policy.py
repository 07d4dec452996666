"""Settings of the decision: the packing policy and a handful of numbers, in seconds and counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.core.placement import Packing, Placer


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    placer: Placer = field(default_factory=Packing)
    restart_cost_s: int = 60
    """Work that one eviction loses besides what was not yet saved: stopping, starting, reading the checkpoint."""
    protected_runtime_s: int = 300
    """A job that has run for less is not evicted by priority or fair share, except by an administrator's PriorityClass.
    A queue may set more. A queue that asks for what it is guaranteed does not wait for it."""
    share_history_percent: int = 50
    """Weight of past borrowing beside present borrowing when shares are compared."""
    missing_grace_s: int = 60
    """Grace period of a GPU that its node does not list any more: an agent or a driver restarts."""
    forecasts: int = 16
    """Different requests per cycle that are examined closely: for moves their start is forecast, and the protection
    that blocks them is searched."""
    advice: int = 2_000
    """Trials per cycle to find the smallest changes that would start waiting jobs; fewer in clusters of many nodes."""
    reserve_within_s: int = 3_600
    """GPUs are kept for a job that waits only if it will start within this time; 0 keeps none."""
    collect_after_s: int = 1_800
    """GPUs are reserved for a job that has waited this long, whatever comes meanwhile; 0: for none. Half an hour costs
    0.0 to 0.2 points of utilisation (docs/design/0006-scheduling-core.md)."""
    tenure_s: int = 0
    """The tenure limit. A job that has held its GPUs this long leaves for one for which GPUs are reserved, also inside
    its guarantee; 0: only a job that borrows leaves."""
    moves: int = 4
    """Jobs that one cycle may move to make room for another, where queues allow it."""


DEFAULT = Policy()
