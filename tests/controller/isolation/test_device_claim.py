"""Path C: the claim of a pod pins the GPUs that the ledger chose, and asks for what it granted. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.resources.gpunodes import IsolationPath
from cotenant.api.resources.placement_status import Isolation
from cotenant.controller.client.kube import RESOURCE_CLAIMS
from cotenant.controller.isolation.node_isolation import NodeIsolation
from cotenant.controller.isolation.rendering import rendered
from cotenant.controller.isolation.verification import PodEvidence, verified
from cotenant.core.model.objects import GrantedGpu, NodePlacement, RankPlacement
from tests.controller.builders import pod_document

ABLE = NodeIsolation(
    simulated=True, best=Isolation.NONE, available=frozenset({IsolationPath.DEVICE_CLAIM}), memory_mib={}
)
UNABLE = NodeIsolation(simulated=True, best=Isolation.NONE)


def placed(*ranks: tuple[tuple[str, int, int], ...]) -> NodePlacement:
    """A placement, given as GPU, MiB and milli-GPU of each rank."""
    return NodePlacement(
        node="n1",
        ranks=tuple(
            RankPlacement(
                rank=number,
                gpus=tuple(GrantedGpu(uuid=uuid, memory_mib=mib, compute_milli=milli) for uuid, mib, milli in gpus),
            )
            for number, gpus in enumerate(ranks)
        ),
    )


def request(number: int, uuid: str, memory: str, compute: str) -> dict[str, Any]:
    return {
        "name": f"gpu-{number}",
        "exactly": {
            "deviceClassName": "gpu.cotenant.dev",
            "selectors": [{"cel": {"expression": f'device.attributes["gpu.cotenant.dev"].uuid == "{uuid}"'}}],
            "capacity": {"requests": {"memory": memory, "compute": compute}},
            "tolerations": [
                {"key": "cotenant.dev/held-without-claim", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "cotenant.dev/drain", "operator": "Exists", "effect": "NoExecute"},
            ],
        },
    }


@pytest.mark.parametrize(
    ("placement", "requests"),
    [
        pytest.param(
            placed((("GPU-a", 40_960, 500),), (("GPU-b", 81_920, 1000),)),
            [request(0, "GPU-a", "40960Mi", "500"), request(1, "GPU-b", "81920Mi", "1000")],
            id="a request for each GPU, with its own amounts",
        ),
        pytest.param(
            placed((("GPU-a", 20_000, 300),), (("GPU-a", 10_000, 200),)),
            [request(0, "GPU-a", "30000Mi", "500")],
            id="two ranks on one GPU are one request",
        ),
    ],
)
def test_the_claim_asks_for_what_was_granted_of_the_gpus_that_were_chosen(
    placement: NodePlacement, requests: list[dict[str, Any]]
) -> None:
    pod = pod_document(1)
    made = rendered(pod, placement, ABLE, "nvidia")
    ((resource, claim),) = made.side_objects
    assert resource is RESOURCE_CLAIMS
    assert claim["spec"] == {"devices": {"requests": requests}}
    metadata = claim["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("train-1-1", "red")
    assert metadata["ownerReferences"] == pod["metadata"]["ownerReferences"]
    assert metadata["labels"].keys() == {
        "app.kubernetes.io/managed-by", "cotenant.dev/job", "cotenant.dev/job-uid", "cotenant.dev/attempt",
    }  # fmt: skip


def test_the_pods_container_has_the_claim_beside_its_other_resources() -> None:
    spec = rendered(pod_document(), placed((("GPU-a", 1, 1),)), ABLE, "nvidia").pod["spec"]
    assert spec["resourceClaims"] == [{"name": "gpus", "resourceClaimName": "train-1-0"}]
    assert spec["containers"][0]["resources"] == {
        "requests": {"cpu": "2", "memory": "1Gi"},
        "claims": [{"name": "gpus"}],
    }


def test_a_node_that_does_not_offer_its_gpus_has_pods_without_claims() -> None:
    made = rendered(pod_document(), placed((("GPU-a", 1, 1),)), UNABLE, "nvidia")
    assert made.side_objects == ()
    assert "resourceClaims" not in made.pod["spec"]


def test_a_claim_makes_no_level_of_its_own() -> None:
    """It says who holds a GPU, and holds no program to its share."""
    placement = placed((("GPU-a", 1, 1),))
    able, unable = (verified(placement, node, PodEvidence()) for node in (ABLE, UNABLE))
    assert able == unable
