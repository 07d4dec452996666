"""What quotas limit, and the limit that binds.

A dimension of quotas is a field of `Amounts`, and has a measure in `OF_QUEUE` and one in `OF_USER` at the same place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from operator import add
from typing import Final, NamedTuple

from cotenant.core.model.objects import WHOLE


class Measure(StrEnum):
    """What a quota counts. Amounts are MiB for memory, else milli-GPU; `formatting.format_amount` writes them."""

    GPU = "GPU"
    GPU_OF_USER = "GPU per user"
    MEMORY = "GPU memory"
    MEMORY_OF_USER = "GPU memory per user"

    @property
    def is_memory(self) -> bool:
        return self in {Measure.MEMORY, Measure.MEMORY_OF_USER}

    @property
    def dimension(self) -> int:
        """Its place in `Amounts`."""
        return (OF_USER if self in OF_USER else OF_QUEUE).index(self)


class Amounts(NamedTuple):
    """What one worker or one placement costs in quotas, in each dimension."""

    milli: int = 0
    """Milli-GPU."""
    mib: int = 0
    """MiB of GPU memory."""

    @classmethod
    def of_share(cls, memory_mib: int, compute_milli: int, gpu_memory_mib: int) -> Amounts:
        """The price of a share of a GPU that has `gpu_memory_mib`: the larger part, rounded up.

        Example: 30 GiB and 100 milli of a GPU with 80 GiB → 375.
        """
        return cls(max(compute_milli, -(-memory_mib * WHOLE // max(1, gpu_memory_mib))), memory_mib)

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(*map(add, self, other))

    def times(self, number: int) -> Amounts:
        return Amounts(*(number * amount for amount in self))

    @classmethod
    def largest(cls, amounts: Iterable[Amounts]) -> Amounts:
        """The largest of each dimension."""
        return cls(*map(max, zip(*amounts, strict=True)))


OF_QUEUE: Final = (Measure.GPU, Measure.MEMORY)
"""Measures of quota lines, in the order of `Amounts`."""
OF_USER: Final = (Measure.GPU_OF_USER, Measure.MEMORY_OF_USER)
"""Measures of user limits, in the same order."""


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
