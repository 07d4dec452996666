"""A cluster without IPv4: nodes, pods and Services have IPv6 addresses alone."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

import pytest

from tests.live.e2e.tenancy import Tenancy, product
from tests.live.platforms.training import trains

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def platform() -> Iterator[Tenancy]:
    from cotenant_local.cluster import spec

    gpus = {"count": 2, "class": "H100"}
    nodes = [{"name": "six", "count": 2, "gpus": gpus}]
    with product("ipv6", spec.parse({"ipFamily": "IPv6", "nodes": nodes}, "this test")) as tenancy:
        yield tenancy


def test_an_ordinary_job_trains_where_there_is_no_ipv4(platform: Tenancy, team: str) -> None:
    trains(platform, team)
    pods = platform.get("pods", "-A")["items"]
    found = [ipaddress.ip_address(one["ip"]) for pod in pods for one in pod["status"].get("podIPs", ())]
    assert found
    assert {address.version for address in found} == {6}
