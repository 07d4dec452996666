"""`cotenant operator` as a process: what it sets for itself before the operator runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from cotenant.cli import main
from cotenant.cli.operator import GC_THRESHOLD
from cotenant.controller import main as controller


@pytest.fixture
def collector() -> Iterator[None]:
    """Python's collector as it was before, after the test."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_the_operator_looks_for_garbage_rarely_and_not_among_what_stays(
    collector: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    async def operator(_: object) -> int:
        seen.append((gc.get_threshold()[0], gc.get_freeze_count() > 0, gc.isenabled()))
        return 0

    monkeypatch.setattr(controller, "run", operator)
    assert main.main(["operator", "--worker-image", "worker:1"]) == 0
    assert seen == [(GC_THRESHOLD, True, True)]
