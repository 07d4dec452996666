"""Fixtures of the tests beside the played programs of MPS."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.mps.world import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world in a folder with a short name, because the path of a socket may have only 107 characters."""
    with tempfile.TemporaryDirectory(prefix="mps") as folder:
        made = World(Path(folder))
        monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
        yield made
