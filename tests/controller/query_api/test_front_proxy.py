"""The user who asks, by the certificate and the headers of the API server's aggregator."""

from __future__ import annotations

from typing import Any

import pytest
from multidict import CIMultiDict

from cotenant.controller.query_api.front_proxy import Caller, FrontProxy

CONFIG = {
    "requestheader-client-ca-file": "pem",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
HEADERS = CIMultiDict(
    [
        ("x-remote-user", "alice"),
        ("X-Remote-Group", "team-a"),
        ("X-Remote-Group", "system:authenticated"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Extra-scopes.example%2Fx", "a"),
        ("X-Remote-Extra-Scopes.example%2Fx", "b"),
        ("Accept", "*/*"),
    ]
)


def certificate(name: str) -> dict[str, Any]:
    """A certificate as `ssl` shows one that it has verified."""
    return {"subject": ((("organizationName", "any"),), (("commonName", name),))}


def proxy(**changes: str) -> FrontProxy:
    found = FrontProxy.of(CONFIG | changes)
    assert found is not None
    return found


def test_the_user_is_the_one_in_the_headers() -> None:
    caller = proxy().caller(certificate("front-proxy-client"), HEADERS)
    extra = {"scopes.example/x": ("a", "b")}
    assert caller == Caller("alice", ("team-a", "system:authenticated"), "7", extra)


@pytest.mark.parametrize("shown", [None, {}, certificate("somebody"), {"subject": ()}])
def test_without_the_aggregators_certificate_headers_count_for_nothing(shown: dict[str, Any] | None) -> None:
    assert proxy().caller(shown, HEADERS) is None


def test_where_no_names_are_given_any_client_of_the_authority_is_the_aggregator() -> None:
    caller = proxy(**{"requestheader-allowed-names": "[]"}).caller(certificate("somebody"), HEADERS)
    assert caller is not None


@pytest.mark.parametrize("user", ["", None])
def test_nobody_asks_without_a_name(user: str | None) -> None:
    headers = CIMultiDict([("X-Remote-Group", "system:masters")])
    if user is not None:
        headers["X-Remote-User"] = user
    assert proxy().caller(certificate("front-proxy-client"), headers) is None


@pytest.mark.parametrize(
    "config",
    [{}, CONFIG | {"requestheader-client-ca-file": ""}, CONFIG | {"requestheader-username-headers": "{"}],
    ids=["no aggregator", "no authority", "unreadable"],
)
def test_a_cluster_without_an_aggregator_has_no_front_proxy(config: dict[str, str]) -> None:
    assert FrontProxy.of(config) is None
