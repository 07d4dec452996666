"""`spec.ttlAfterFinished`: when a job that has succeeded or failed is deleted. Pure."""

from __future__ import annotations

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.controller.lifecycle.observation import Observation, ReconcileResult


def reconcile_finished(o: Observation) -> ReconcileResult:
    """End the pods that are left; delete the job once its time is over."""
    ttl_s = o.spec.ttl_after_finished if o.spec else None
    ended_at = unix_seconds(o.status.finished_at)
    if ttl_s is None or ended_at is None:
        return ReconcileResult(delete_pods=o.stoppable)
    if o.now >= ended_at + ttl_s:
        return ReconcileResult(delete_pods=o.stoppable, delete_job=True)
    return ReconcileResult(delete_pods=o.stoppable, requeue_at=ended_at + ttl_s)
