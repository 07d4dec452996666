"""Hypothesis for the core: `COTENANT_EXAMPLES=10` multiplies the number of examples of every property."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

_FACTOR = int(os.environ.get("COTENANT_EXAMPLES", "1"))

settings.register_profile(
    "core",
    max_examples=25 * _FACTOR,
    deadline=None,
    derandomize=_FACTOR == 1,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("core")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """More examples take longer: the time that a hung test gets grows with them."""
    for item in items:
        if _FACTOR > 1 and "/core/" in item.nodeid:
            item.add_marker(pytest.mark.timeout(300 * _FACTOR))
