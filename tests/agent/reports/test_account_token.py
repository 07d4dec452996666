"""The token of the agent's account is the one that the kubelet wrote last, whatever the node's clock says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes.client.configuration import Configuration
from kubernetes.config.incluster_config import InClusterConfigLoader

from cotenant_agent.reports import account_token


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Path]:
    """A service account as the kubelet mounts it; the token is loaded as in a pod."""
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("authority")
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    before = Configuration.get_default_copy()
    InClusterConfigLoader(str(tmp_path / "token"), str(tmp_path / "ca.crt"), environ=environment).load_and_set()
    yield tmp_path / "token"
    Configuration.set_default(before)


def shown() -> str:
    """What a call would show to the API server."""
    (value,) = (one["value"] for one in Configuration.get_default_copy().auth_settings().values())
    return str(value)


def test_each_call_shows_the_token_that_is_in_the_file(account: Path) -> None:
    account_token.read_for_every_call(account)
    seen = [shown()]
    account.write_text("second\n")  # no minute has passed, nor does one by a clock that was set back
    assert [*seen, shown()] == ["Bearer first", "Bearer second"]


def test_a_token_that_cannot_be_read_for_a_moment_is_the_last_one(account: Path) -> None:
    account_token.read_for_every_call(account)
    account.unlink()
    assert shown().split() == ["bearer", "first"]
