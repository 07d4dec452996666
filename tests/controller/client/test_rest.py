"""The client against the real API server: what came of each verb is a value, and only silence is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cotenant.controller.client.kube import (
    EVENTS,
    SECRETS,
)
from cotenant.controller.client.rest import priority_of

if TYPE_CHECKING:
    pass


def test_commits_go_before_pods_and_pods_before_events() -> None:
    calls = [("POST", EVENTS), ("GET", SECRETS), ("POST", SECRETS), ("DELETE", SECRETS), ("PATCH", SECRETS)]
    assert [priority_of(method, resource.path("red")) for method, resource in calls] == [2, 1, 1, 0, 0]
