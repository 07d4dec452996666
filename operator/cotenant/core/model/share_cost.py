"""Price of a share of a GPU in quotas: the unit in which usage is counted and billed."""

from __future__ import annotations

from cotenant.core.model.measure import Amounts
from cotenant.core.model.objects import WHOLE


def share_cost(memory_mib: int, compute_milli: int, gpu_memory_mib: int) -> int:
    """Milli-GPU of a share of a GPU that has `gpu_memory_mib`: the larger dimension, rounded up.

    Example: 30 GiB and 100 milli of a GPU with 80 GiB → 375.
    """
    return max(compute_milli, -(-memory_mib * WHOLE // max(1, gpu_memory_mib)))


def share_amounts(memory_mib: int, compute_milli: int, gpu_memory_mib: int) -> Amounts:
    """What a share of a GPU that has `gpu_memory_mib` counts in each dimension of quotas."""
    return Amounts(milli=share_cost(memory_mib, compute_milli, gpu_memory_mib), mib=memory_mib)
