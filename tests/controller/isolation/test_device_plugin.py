"""Path B: a pod requests shares of exactly the GPUs of its placement, by their names. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.resources.gpunodes import IsolationPath
from cotenant.api.resources.placement_status import Isolation
from cotenant.controller.isolation.node_isolation import NodeIsolation
from cotenant.controller.isolation.rendering import rendered
from cotenant.controller.isolation.verification import PodEvidence, verified
from cotenant.core.model.objects import NodePlacement
from tests.controller.builders import pod_document
from tests.controller.isolation.test_device_claim import placed

MEMORY = {"GPU-a": 81_920, "GPU-b": 40_960}


def node(*paths: IsolationPath) -> NodeIsolation:
    return NodeIsolation(simulated=True, best=Isolation.NONE, available=frozenset(paths), memory_mib=MEMORY)


COUNTING = node(IsolationPath.DEVICE_PLUGIN)


def resources(of: NodeIsolation, placement: NodePlacement) -> dict[str, Any]:
    found: dict[str, Any] = rendered(pod_document(), placement, of, "nvidia").pod["spec"]["containers"][0]
    return dict(found["resources"])


@pytest.mark.parametrize(
    ("placement", "shares"),
    [
        pytest.param(
            placed((("GPU-a", 40_960, 400),), (("GPU-b", 40_960, 1000),)),
            {"memory.gpu-a": "500", "compute.gpu-a": "400", "memory.gpu-b": "1000", "compute.gpu-b": "1000"},
            id="each GPU by its name, with its own amounts",
        ),
        pytest.param(
            placed((("GPU-a", 20_480, 300),), (("GPU-a", 20_480, 200),)),
            {"memory.gpu-a": "500", "compute.gpu-a": "500"},
            id="two ranks on one GPU are one request",
        ),
        pytest.param(
            placed((("GPU-x", 1000, 10),)),
            {"memory.gpu-x": "1000", "compute.gpu-x": "10"},
            id="a GPU of which the size is not known is taken whole",
        ),
    ],
)
def test_the_pod_requests_what_was_granted_of_the_gpus_that_were_chosen(
    placement: NodePlacement, shares: dict[str, str]
) -> None:
    """Requests and limits alike, as Kubernetes wants extended resources, beside what the pod has already."""
    named = {f"gpu.cotenant.dev/{name}": amount for name, amount in shares.items()}
    assert resources(COUNTING, placement) == {"requests": {"cpu": "2", "memory": "1Gi", **named}, "limits": named}


@pytest.mark.parametrize(
    "of",
    [node(), node(IsolationPath.DEVICE_PLUGIN, IsolationPath.DEVICE_CLAIM)],
    ids=["a node that offers no shares", "a node that counts claims"],
)
def test_no_shares_are_requested_of(of: NodeIsolation) -> None:
    found = resources(of, placed((("GPU-a", 1, 1),)))
    assert found["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert "limits" not in found


def test_shares_make_no_level_of_their_own() -> None:
    """They say who holds a GPU, and hold no program to its share."""
    placement = placed((("GPU-a", 1, 1),))
    found = [verified(placement, of, PodEvidence()) for of in (COUNTING, node())]
    assert found[0] == found[1]
