"""The job that stands for a ResourceClaim of others."""

from __future__ import annotations

from dataclasses import replace

from cotenant.api.conversion.device_claims import allocated_claim
from cotenant.controller.cluster.foreign.foreign_claims import claim_holder, is_claim
from cotenant.core.model.objects import Gpu, Node
from tests.controller.builders import T0, claim_document

NODE = Node(
    name="n1",
    gpus=tuple(Gpu(uuid=f"GPU-{index}", gpu_class="H100", memory_mib=81_920, index=index) for index in range(2)),
    cpu_milli=64_000,
    memory_mib=512_000,
)


def test_of_a_gpu_that_is_not_listed_a_claim_holds_nothing() -> None:
    claim = allocated_claim(claim_document("c", ("n1", "gpu-0", 1, 1), ("n1", "gpu-9", 1, 1), ("n2", "gpu-0", 1, 1)))
    assert claim is not None
    missing = replace(NODE, gpus=tuple(replace(gpu, missing_since=T0) for gpu in NODE.gpus))
    assert claim_holder(claim, {"n1": missing}) is None
    assert claim_holder(claim, {"n1": replace(NODE, deleted=True)}) is None
    holder = claim_holder(claim, {"n1": NODE})
    assert holder is not None
    assert holder.placement is not None
    assert is_claim(holder.key)
    assert holder.preemptible is False
    assert [gpu.uuid for node in holder.placement.nodes for rank in node.ranks for gpu in rank.gpus] == ["GPU-0"]
