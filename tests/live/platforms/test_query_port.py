"""An API server that cannot reach the operator's pod, as behind the firewall of a managed control plane."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.live.e2e.tenancy import Tenancy
from tests.live.platforms.training import trains

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NAME = "v1alpha1.query.cotenant.dev"


def aim(platform: Tenancy, port: int) -> None:
    """Send the API server to this port of the Service."""
    change = json.dumps({"spec": {"service": {"port": port}}})
    platform.cluster.kubectl("patch", "apiservice", NAME, "--type=merge", "-p", change)


@pytest.fixture
def closed(platform: Tenancy) -> Iterator[None]:
    aim(platform, 4430)
    yield
    aim(platform, 443)
    platform.wait(lambda: is_available(platform), what="the API of questions answers again")


def is_available(platform: Tenancy) -> bool:
    conditions = platform.get("apiservice", NAME)["status"].get("conditions") or []
    return any((one["type"], one["status"]) == ("Available", "True") for one in conditions)


def test_the_operator_says_within_a_minute_what_is_closed_and_jobs_train_meanwhile(
    platform: Tenancy, team: str, closed: None
) -> None:
    def told() -> list[str]:
        events = platform.get("events", "-n", "default")["items"]
        return [one["message"] for one in events if one["reason"] == "QueryAPIUnavailable"]

    (message, *_) = platform.wait(told, seconds=75, what="an Event says that the API server is kept from the operator")
    assert "10250" in message
    assert "query.enabled=false" in message
    trains(platform, team)
