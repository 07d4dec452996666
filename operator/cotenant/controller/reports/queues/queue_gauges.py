"""Gauges of jobs, queues and GPUs, for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.reports.queues.queue_status import QueueAccounts
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.objects import WHOLE, JobKey
from cotenant.core.model.plan import Verdict
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.decision_log.showback.prices import HOUR


def clear_gauges(metrics: Metrics) -> None:
    """Remove all series of these gauges and of those of live use."""
    for gauge in (
        metrics.jobs,
        metrics.pending,
        metrics.gpus,
        metrics.capacity,
        metrics.budget_left,
        metrics.memory_used,
        metrics.utilization,
    ):
        gauge.clear()


def set_gauges(
    metrics: Metrics,
    snapshot: Snapshot,
    account: QueueAccounts,
    verdicts: Mapping[JobKey, Verdict],
    jobs: Iterable[JobRecord],
) -> None:
    """Set the gauges. Series of jobs, queues and GPUs that no longer exist are removed."""
    metrics.pending.clear()
    # A tenant may name any queue: one that is not there is no series of its own.
    known = {queue.name for queue in snapshot.queues}
    queue_of = {job.key: job.queue for job in snapshot.jobs if job.queue in known}
    waiting = Counter((queue_of.get(key, ""), verdict.reason.value) for key, verdict in verdicts.items())
    for (queue, reason), count in waiting.items():
        metrics.pending.labels(queue, reason).set(count)
    metrics.jobs.clear()
    for phase, count in Counter(str(one.phase) for one in jobs).items():
        metrics.jobs.labels(phase).set(count)
    metrics.budget_left.clear()
    for one in snapshot.queues:
        if one.budget_left is not None:
            metrics.budget_left.labels(one.name, "gpu_hours").set(one.budget_left / HOUR)
        if one.money_left is not None:
            metrics.budget_left.labels(one.name, one.currency).set(one.money_left / 1_000_000)
    metrics.gpus.clear()
    for number, one in enumerate(account.tree.queues):
        for gpu_class, milli in account.usage.class_milli[number].items():
            metrics.gpus.labels(one.name, gpu_class).set(milli / WHOLE)
    metrics.capacity.clear()
    for (gpu_class, _), milli in account.tree.capacity.items():
        metrics.capacity.labels(gpu_class).inc(milli / WHOLE)
