"""When a claim is prepared on a node: never beyond what its GPUs have, in whatever order claims come and go. Pure."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.api.conversion.device_claims import AllocatedClaim, allocated_claim
from cotenant_agent.dra import prepared_claims
from cotenant_agent.dra.prepared_claims import PreparedClaim, RefusedClaimError, from_document, to_document
from cotenant_agent.enforcement.quota import PodQuota
from tests.agent.dra.gpus import A, B, claim, result


def allocated(name: str, *results: dict[str, object]) -> AllocatedClaim:
    read = allocated_claim(claim(name, *results))
    assert read is not None
    return read


def prepare(before: dict[str, PreparedClaim], one: AllocatedClaim, node: str = "n1") -> PreparedClaim:
    return prepared_claims.prepared(before, one, (A, B), node)


def test_a_claim_that_names_no_amount_holds_all_of_its_gpu() -> None:
    (held,) = prepare({}, allocated("whole", result("gpu-a", None, None))).devices
    assert (held.uuid, held.memory_mib, held.compute_milli) == ("GPU-A", 81_920, 1000)


def test_preparing_again_changes_nothing_even_when_the_gpu_is_gone() -> None:
    first = prepare({}, allocated("c", result("gpu-a")))
    again = prepared_claims.prepared({first.uid: first}, allocated("c", result("gpu-b")), (), "n1")
    assert again is first


@pytest.mark.parametrize(
    ("one", "node", "says"),
    [
        (allocated("c", result("gpu-a")), "n2", "device gpu-a is of pool n1, and this is node n2"),
        (allocated("c", result("gpu-c")), "n1", "node n1 has no GPU of the device name gpu-c"),
        (allocated("c", result("gpu-a", "81Gi")), "n1", "GPU GPU-A has 81920 MiB"),
        (allocated("c", result("gpu-a", "1Gi", "1001")), "n1", "hold 1024 MiB and 1001"),
        (allocated("c", result("gpu-a", "50Gi"), result("gpu-a", "50Gi")), "n1", "hold 102400 MiB"),
    ],
)
def test_what_the_node_cannot_give_is_refused_with_the_reason(one: AllocatedClaim, node: str, says: str) -> None:
    with pytest.raises(RefusedClaimError, match=says):
        prepare({}, one, node)


def test_a_pod_of_the_operator_without_a_claim_holds_its_gpu_too() -> None:
    grant = PodQuota(pod_uid="p", namespace="red", pod="a-1-0", quota_mib={"GPU-A": 70_000}, compute_milli={})
    with pytest.raises(RefusedClaimError, match="guests/c, red/a-1-0"):
        prepare({"p": prepared_claims.without_claim(grant)}, allocated("c", result("gpu-a")))


def test_a_prepared_claim_is_the_same_after_it_was_on_disk() -> None:
    one = prepare({}, allocated("c", result("gpu-a"), result("gpu-b")))
    assert from_document(json.loads(json.dumps(to_document(one)))) == one


@pytest.mark.parametrize("broken", [{}, {"devices": [{}]}, {"devices": None}])
def test_what_is_no_prepared_claim_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        from_document(broken)


AMOUNTS = st.sampled_from(["1Mi", "20Gi", "40Gi", "80Gi", "81Gi", None])
MILLI = st.sampled_from(["1", "500", "1000", "1001", None])
STEPS = st.tuples(st.integers(0, 5), st.booleans(), st.lists(st.tuples(st.sampled_from("ab"), AMOUNTS, MILLI)))


@given(st.lists(STEPS, max_size=30))
def test_no_order_of_claims_prepares_more_than_a_gpu_has(
    steps: list[tuple[int, bool, list[tuple[str, str, str]]]],
) -> None:
    held: dict[str, PreparedClaim] = {}
    for number, comes, wanted in steps:
        one = allocated_claim(claim(f"c{number}", *(result(f"gpu-{gpu}", mem, milli) for gpu, mem, milli in wanted)))
        if not comes:
            held.pop(f"c{number}-uid", None)
        elif one is not None:
            try:
                held[one.uid] = prepare(held, one)
            except RefusedClaimError:
                continue
        for gpu in (A, B):
            devices = [device for claimed in held.values() for device in claimed.devices if device.uuid == gpu.uuid]
            assert sum(device.memory_mib for device in devices) <= gpu.memory_mib
            assert sum(device.compute_milli for device in devices) <= 1000
