"""JSON merge patch, the smallest from one status to another. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the patch from one object to the other; empty when there is nothing to write."""
    change: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := difference(before, value):
                change[key] = inner
        elif value != before:
            change[key] = value
    return change
