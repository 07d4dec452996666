"""Verbs of tenants on a cluster that is played."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from tests.cli.tenants.cluster import PlayedCluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> PlayedCluster:
    """The cluster that all verbs of tenants connect to. While a verb sleeps, `on_sleep` runs."""
    played = PlayedCluster()

    def connect(args: argparse.Namespace, *_: Any) -> PlayedCluster:
        played.namespace = args.namespace or "red"
        return played

    for module in ("tenants.advise", "tenants.history", "tenants.cost", "tenants.submit", "terminal.object_names"):
        monkeypatch.setattr(f"cotenant.cli.{module}.connect", connect)
    monkeypatch.setattr("time.sleep", lambda _: played.on_sleep())
    return played
