"""Counters of charges, for Prometheus. Labels are existing queues and classes of GPUs, never a job."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cotenant.controller.telemetry.metrics import Metrics
from cotenant.decision_log.showback.charges import PARTS, UsageCharge
from cotenant.decision_log.showback.prices import PriceList
from cotenant.decision_log.showback.report import priced


def count_charges(metrics: Metrics, charges: Iterable[UsageCharge], prices: PriceList, queues: Collection[str]) -> None:
    """Count the charges. A charge of a queue that does not exist counts under an empty name."""
    for charge in charges:
        queue = charge.queue if charge.queue in queues else ""
        for part in PARTS:
            if amount := getattr(charge, part):
                metrics.gpu_seconds.labels(queue, charge.gpu_class, part).inc(amount / 1000)
        cost = sum(one.micros for one in priced([charge], charge.since, max(charge.until, charge.since + 1), prices))
        if cost:
            metrics.cost.labels(queue, charge.gpu_class, prices.currency).inc(cost / 1_000_000)
