"""What quotas limit, and the limit that binds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Measure(StrEnum):
    """What a quota counts. Amounts are MiB for memory, else milli-GPU; `formatting.format_amount` writes them."""

    GPU = "GPU"
    GPU_OF_USER = "GPU per user"
    MEMORY = "GPU memory"
    MEMORY_OF_USER = "GPU memory per user"

    @property
    def is_memory(self) -> bool:
        return self in {Measure.MEMORY, Measure.MEMORY_OF_USER}


@dataclass(frozen=True, slots=True)
class BindingLimit:
    """A rule that binds, with the numbers that a refusal names."""

    measure: Measure
    scope: str
    limit: int
    used: int
    counter: int | tuple[int, str] | None = field(default=None, compare=False)
    """Index of the quota line, or (index of the line of users, user), that counts its use. None: no limit of a
    queue."""

    @property
    def available(self) -> int:
        return max(0, self.limit - self.used)
