"""What quotas limit."""

from __future__ import annotations

from enum import StrEnum


class Measure(StrEnum):
    """Amounts are milli-GPU, or MiB if it is one of memory. `formatting.format_amount` writes them."""

    GPU = "GPU"
    GPU_OF_USER = "GPU per user"
    MEMORY = "GPU memory"
    MEMORY_OF_USER = "GPU memory per user"

    @property
    def is_memory(self) -> bool:
        return self in {Measure.MEMORY, Measure.MEMORY_OF_USER}
