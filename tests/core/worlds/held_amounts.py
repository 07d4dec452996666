"""What ledgers and usages hold, compared: equal amounts everywhere, whatever led there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from cotenant.core.gpus.ledger import Ledger
from cotenant.core.quota.usage import Usage

K = TypeVar("K")


def same_ledger(one: Ledger, other: Ledger) -> bool:
    return bool(np.array_equal(one.packed, other.packed))


def same_usage(one: Usage, other: Usage) -> bool:
    return _amounts(one) == _amounts(other)


def _amounts(usage: Usage) -> tuple[object, ...]:
    """Every counter. An entry of 0 counts as none."""
    by_class = [_present(held) for held in usage.class_milli]
    return usage.of_lines, by_class, [_present(held) for held in usage.of_users]


def _present(held: Mapping[K, int]) -> dict[K, int]:
    return {key: amount for key, amount in held.items() if amount}
