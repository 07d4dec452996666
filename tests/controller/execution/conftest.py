"""Simulated time for every test of this folder."""

from __future__ import annotations

import pytest

from tests.controller.execution.replica import simulate_time


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)
