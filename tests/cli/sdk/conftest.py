"""An API server in memory, and a client of it."""

from __future__ import annotations

import pytest

from cotenant.sdk.async_client import AsyncClient
from tests.cli.sdk.served_kube import ServedKube


@pytest.fixture
def served() -> ServedKube:
    return ServedKube()


@pytest.fixture
def client(served: ServedKube) -> AsyncClient:
    return AsyncClient(served, "team-a", "vision")  # type: ignore[arg-type]
