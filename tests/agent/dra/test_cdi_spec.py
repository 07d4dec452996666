"""What a container gets of a claim, as CDI has it. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cotenant_agent.dra import cdi_spec
from cotenant_agent.dra.prepared_claims import PreparedClaim, PreparedDevice
from tests.agent.dra.gpus import A, B


def prepared(*held: tuple[str, int]) -> PreparedClaim:
    devices = tuple(
        PreparedDevice(request="g", device=uuid.lower(), share_id="", uuid=uuid, memory_mib=mib, compute_milli=100)
        for uuid, mib in held
    )
    return PreparedClaim(namespace="guests", name="c", uid="u", pool="n1", devices=devices, pods=())


def edits(claim: PreparedClaim) -> dict[str, Any]:
    document = cdi_spec.spec(claim, {"GPU-A": A, "GPU-B": B})
    (only,) = document["devices"]
    assert cdi_spec.cdi_device(claim.uid) == f"{document['kind']}={only['name']}"
    found: dict[str, Any] = only["containerEdits"]
    return found


def test_a_claim_is_one_device_with_its_gpus_by_uuid_and_their_nodes() -> None:
    assert edits(prepared(("GPU-B", 100), ("GPU-A", 100), ("GPU-B", 50))) == {
        "env": ["NVIDIA_VISIBLE_DEVICES=GPU-B,GPU-A", "CUDA_VISIBLE_DEVICES=GPU-B,GPU-A"],
        "deviceNodes": [
            {"path": "/dev/nvidiactl"},
            {"path": "/dev/nvidia-uvm"},
            {"path": "/dev/nvidia-uvm-tools"},
            {"path": "/dev/nvidia4"},
            {"path": "/dev/nvidia3"},
        ],
    }


def test_a_simulated_gpu_has_no_device_node() -> None:
    document = cdi_spec.spec(prepared(("GPU-A", 100)), {"GPU-A": replace(A, minor=None)})
    assert "deviceNodes" not in document["devices"][0]["containerEdits"]


def test_of_a_partitioned_gpu_no_claim_gets_the_whole_device() -> None:
    instance = replace(A, uuid="MIG-A", parent="GPU-A", profile="1g.10gb")
    assert cdi_spec.device_nodes([instance]) == []
