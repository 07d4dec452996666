"""Hypothesis for the core: `COTENANT_EXAMPLES=10` multiplies the number of examples of every property.

`make explore` draws as many here as elsewhere.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

_EXPLORES = settings.get_current_profile_name() == "explore"
_FACTOR = 40 if _EXPLORES else int(os.environ.get("COTENANT_EXAMPLES", "1"))

settings.register_profile(
    "core",
    max_examples=25 * _FACTOR,
    deadline=None,
    derandomize=_FACTOR == 1,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
if not _EXPLORES:
    settings.load_profile("core")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """More examples take longer: the time that a hung test gets grows with them."""
    for item in items:
        if _FACTOR > 1 and "/core/" in item.nodeid:
            item.add_marker(pytest.mark.timeout(300 * _FACTOR))
