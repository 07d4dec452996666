"""Counters that a rank and its launcher share, and the call at which all ranks leave."""

from pathlib import Path

import pytest

from cotenant_worker.hook.cotenant_shim import launcher_client
from cotenant_worker.messaging import shared_counters
from cotenant_worker.messaging.shared_counters import SharedCounters, common_stop_call


def test_all_ranks_stop_at_a_safe_point_that_none_can_have_passed() -> None:
    assert common_stop_call([10, 11], rate=0.1) == 12
    assert common_stop_call([1000, 1001], rate=200.0) == 1102


def test_what_one_side_writes_the_other_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("COTENANT_RANK", "0")
    launcher, rank = SharedCounters(tmp_path / "rank-0.counters"), launcher_client.LauncherClient()
    launcher.set("sequence", -1)
    launcher.set("stop_at", 12)
    rank.set_counter("calls", 7)
    assert [rank.get_counter(name) for name in ("sequence", "stop_at", "step")] == [-1, 12, 0]
    assert launcher.get("calls") == 7


def test_the_shim_reads_the_same_counters() -> None:
    """It has its own list of them: nothing of this package is imported in a tenant's interpreter."""
    assert launcher_client._COUNTERS == shared_counters._COUNTERS
    assert launcher_client._COUNTERS_BYTES == shared_counters._SIZE
