"""Which deleted objects are remembered."""

from __future__ import annotations

import pytest

from cotenant.controller.informers import tombstones
from cotenant.controller.informers.tombstones import Tombstones


def test_of_too_many_that_are_gone_the_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tombstones, "TOMBSTONES_MAX", 2)
    gone = Tombstones()
    for uid in "abc":
        gone.add(uid)
    assert [uid in gone for uid in "abc"] == [False, True, True]
