"""The leader's address is in the EndpointSlice of its address family."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.controller.client.fence import Fence
from cotenant.controller.client.kube import ENDPOINT_SLICES, SERVICES
from cotenant.controller.query_api.endpoint import LeaderEndpoint
from tests.support.fake_kube import FakeKube

pytestmark = pytest.mark.looptime

NAMESPACE = "cotenant-system"
PORTS = [{"name": "query", "port": 10250, "protocol": "TCP"}]


def cluster(endpoints: list[dict[str, Any]] | None = None) -> FakeKube:
    kube = FakeKube()
    for family in (4, 6):
        metadata = {"name": f"cotenant-query-ipv{family}", "namespace": NAMESPACE}
        kube.put(ENDPOINT_SLICES, {"metadata": metadata, "endpoints": endpoints or [], "ports": PORTS})
    return kube


def addresses(kube: FakeKube, family: int = 4) -> list[str]:
    found = kube.stored(ENDPOINT_SLICES, f"cotenant-query-ipv{family}", NAMESPACE) or {}
    return [address for one in found["endpoints"] for address in one["addresses"]]


def endpoint(kube: FakeKube, address: str, leads: list[bool]) -> LeaderEndpoint:
    kube.before_write = Fence(lambda: leads[0]).check
    return LeaderEndpoint(kube=kube, namespace=NAMESPACE, address=address, port=10250)


@pytest.mark.parametrize(("address", "family"), [("10.1.2.3", 4), ("fd00::7", 6)])
async def test_the_leader_puts_itself_into_the_slice_of_its_family_alone(address: str, family: int) -> None:
    kube = cluster()
    await endpoint(kube, address, [True]).publish()
    assert {one: addresses(kube, one) for one in (4, 6)} == {4: [], 6: []} | {family: [address]}


async def test_what_stands_there_is_not_written_again() -> None:
    kube = cluster()
    for _ in range(3):
        await endpoint(kube, "10.1.2.3", [True]).publish()
    assert len([call for call in kube.calls if call.startswith("PATCH")]) == 1


async def test_a_new_leader_replaces_the_last() -> None:
    kube = cluster([{"addresses": ["10.9.9.9"], "conditions": {"ready": True}}])
    await endpoint(kube, "10.1.2.3", [True]).publish()
    assert addresses(kube) == ["10.1.2.3"]


async def test_a_slice_that_an_upgrade_has_emptied_is_filled_again() -> None:
    kube = cluster()
    published = endpoint(kube, "10.1.2.3", [True])
    await published.publish()
    await kube.patch(ENDPOINT_SLICES, "cotenant-query-ipv4", {"endpoints": []}, namespace=NAMESPACE)
    await published.publish()
    assert addresses(kube) == ["10.1.2.3"]


@pytest.mark.parametrize(("address", "family"), [("10.1.2.3", "4"), ("fd00::7", "6")])
async def test_a_slice_that_nobody_has_made_is_made_as_the_services_own(address: str, family: str) -> None:
    kube = FakeKube()
    kube.put(SERVICES, {"metadata": {"name": "cotenant-query", "namespace": NAMESPACE, "uid": "s"}})
    await endpoint(kube, address, [True]).publish()
    made = kube.stored(ENDPOINT_SLICES, f"cotenant-query-ipv{family}", NAMESPACE) or {}
    assert made["metadata"]["labels"] == {
        "kubernetes.io/service-name": "cotenant-query",
        "endpointslice.kubernetes.io/managed-by": "operator.cotenant.dev",
    }
    assert made["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Service", "name": "cotenant-query", "uid": "s"}
    ]
    assert (made["addressType"], made["ports"]) == (f"IPv{family}", PORTS)
    assert made["endpoints"] == [{"addresses": [address], "conditions": {"ready": True}}]


async def test_another_port_is_written_too() -> None:
    kube = cluster()
    other = LeaderEndpoint(kube=kube, namespace=NAMESPACE, address="10.1.2.3", port=8444)
    await other.publish()
    assert (kube.stored(ENDPOINT_SLICES, "cotenant-query-ipv4", NAMESPACE) or {})["ports"][0]["port"] == 8444


async def test_without_the_service_it_goes_on_looking(caplog: pytest.LogCaptureFixture) -> None:
    await endpoint(FakeKube(), "10.1.2.3", [True]).publish()
    assert "questions are not answered" in caplog.text
