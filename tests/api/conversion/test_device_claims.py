"""What a ResourceClaim holds of the agents' GPUs, read from what the kube-scheduler wrote. Pure."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.api.conversion.device_claims import AllocatedClaim, ClaimedDevice, allocated_claim, device_name

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)


def result(**fields: Any) -> dict[str, Any]:
    return {"request": "g", "driver": "gpu.cotenant.dev", "pool": "n1", "device": "gpu-a", **fields}


def claim(*results: Any, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "guests", "name": "c", "uid": "u"},
        "status": {"allocation": {"devices": {"results": list(results)}}, **status},
    }


@pytest.mark.parametrize(
    ("consumed", "memory_mib", "compute_milli"),
    [
        pytest.param({"memory": "20Gi", "compute": "1k"}, 20_480, 1000, id="as the API server writes them"),
        pytest.param({"memory": "1", "compute": "1500m"}, 1, 2, id="rounded up"),
        pytest.param({"memory": "20Gi"}, 20_480, None, id="all of what is not named"),
        pytest.param({}, None, None, id="a device of fixed capacity is held whole"),
        pytest.param({"memory": "much", "compute": {}}, None, None, id="what cannot be read counts as all"),
    ],
)
def test_amounts_are_read_in_mib_and_thousandths(
    consumed: dict[str, Any], memory_mib: int | None, compute_milli: int | None
) -> None:
    held = ClaimedDevice(request="g", pool="n1", device="gpu-a", memory_mib=memory_mib, compute_milli=compute_milli)
    expected = AllocatedClaim(namespace="guests", name="c", uid="u", devices=(held,))
    assert allocated_claim(claim(result(consumedCapacity=consumed))) == expected


def test_pods_and_the_request_of_an_alternative_are_read() -> None:
    users = [{"resource": "pods", "uid": "b"}, {"resource": "jobs", "uid": "x"}, {"resource": "pods", "uid": "a"}]
    read = allocated_claim(claim(result(request="g/small", shareID="s"), reservedFor=users))
    assert read is not None
    assert (read.pods, read.devices[0].request, read.devices[0].share_id) == (("a", "b"), "g", "s")


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"metadata": {}}, id="nothing is allocated"),
        pytest.param(claim(result(driver="gpu.nvidia.com")), id="a device of another driver"),
        pytest.param(claim(result(adminAccess=True)), id="an administrator looks, and holds nothing"),
    ],
)
def test_a_claim_that_holds_none_of_the_agents_gpus_is_none(document: dict[str, Any]) -> None:
    assert allocated_claim(document) is None


@given(st.dictionaries(st.sampled_from(["status", "metadata", "spec"]), JSON), JSON, JSON)
def test_no_document_raises(document: dict[str, Any], part: Any, amount: Any) -> None:
    allocated_claim(document)
    allocated_claim(claim(part, result(consumedCapacity={"memory": amount, "compute": part})))


@given(st.text(max_size=80), st.text(max_size=80))
def test_device_names_are_labels_and_differ_as_uuids_do(one: str, other: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", device_name(one))
    assert (device_name(one) == device_name(other)) <= (one.lower() == other.lower())


def test_a_usual_uuid_is_its_own_name() -> None:
    assert device_name("GPU-5B8E0F2A-0000-4000-8000-00000000000A") == "gpu-5b8e0f2a-0000-4000-8000-00000000000a"
