"""Guarantees as limits: a job that may not be evicted runs only inside a guarantee of every queue on its path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cotenant.core.model.measure import BindingLimit, Measure
from cotenant.core.quota.headroom import Headroom
from cotenant.core.quota.tree import Bucket
from cotenant.core.quota.usage import Usage

GUARANTEE_OF: Final = "guarantee of "
"""Begins the scope of a guarantee that limits."""


def limit_to_guarantees(headroom: Headroom, usage: Usage, queue: int, buckets: Sequence[Bucket], *, milli: int) -> None:
    """Workers of `milli` each that guarantees still take in these buckets, in all and per zone."""
    for ancestor in usage.tree.paths[queue]:
        lines = [line for line in usage.tree.quotas_of[ancestor] if line.quota.guaranteed]
        for line in (line for line in lines if any(map(line.matches, buckets))):
            used, scope = usage.quota_milli[line.index], f"{GUARANTEE_OF}{line.text}"
            limit = BindingLimit(Measure.GPU, scope, line.guaranteed, used)
            headroom.tighten((line.guaranteed - used) // max(1, milli), limit, line.quota.zone)
        covered = {bucket[1] for bucket in buckets if any(line.matches(bucket) for line in lines)}
        for zone in sorted({zone for _, zone in buckets} - covered):
            scope = f"{GUARANTEE_OF}queue {usage.tree.queues[ancestor].name}, class any, zone {zone or 'any'}"
            headroom.tighten(0, BindingLimit(Measure.GPU, scope, 0, 0), zone)
