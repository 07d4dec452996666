"""The decision: pure, integer, deterministic. No clock, no I/O, no logging, no Kubernetes; `schedule` is the heart."""

from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.state.cluster_state import ClusterState

__all__ = ["DEFAULT", "ClusterState", "Policy", "schedule"]
