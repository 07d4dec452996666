"""Adds to a pod exactly the GPUs of its placement, and what keeps it to its share of them. Pure.

- Path A: the NVIDIA runtime gives the container the named GPUs. Of simulated GPUs only the names are handed out.
- Path A+: the driver refuses memory beyond a limit on the container's cgroup. Managed memory, which the driver moves
  between host and GPU, is not under this limit, so the agent's watchdog goes on beside it.
- Path B: the pod requests shares of these GPUs, and the kubelet counts them.
- Path C: a ResourceClaim pins these GPUs, and the kube-scheduler counts them. The kubelet passes what the claim was
  given to the container by CDI, after the pod's own environment. A node that offers B and C counts claims alone. With
  both, if the ledger is wrong or a claim of others was faster, the pod is not bound or is refused
  (`UnexpectedAdmissionError`), and its gang is placed anew.
- MPS adds nothing: the agent makes its namespaces from the amounts of the claim. A MIG instance is handed out as a GPU.
- Devices of other makers: the kubelet gives a pod as many as it requests, by the maker's device plugin, and chooses
  which. CUDA_VISIBLE_DEVICES is never set for them: AMD's runtime obeys it too, and would show no device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant import names
from cotenant.api.conversion import device_shares
from cotenant.api.resources.gpunodes import IsolationPath
from cotenant.controller.client.kube import RESOURCE_CLAIMS, Document, Resource
from cotenant.controller.isolation.device_claim import POD_CLAIM, resource_claim
from cotenant.controller.isolation.node_isolation import NodeIsolation, amounts_by_gpu
from cotenant.core.model.objects import NodePlacement

DRIVER_CAPABILITIES: Final = "compute,utility"
REQUEST_MIB: Final = 1
"""Size of the reservation. The driver adds it up in all parents of the container's cgroup, and they never get it back.
So it is as small as possible; the shares of a GPU never exceed the GPU anyway.
"""


@dataclass(frozen=True, slots=True)
class Rendered:
    pod: Document
    side_objects: tuple[tuple[Resource, Document], ...] = ()
    """To be made before the pod. The job owns them."""


def rendered(pod: Document, placement: NodePlacement, node: NodeIsolation, runtime_class: str) -> Rendered:
    if devices := asked_devices(placement, node):
        return Rendered(_with_extended_resources(pod, {name: str(number) for name, number in devices.items()}))
    pod = _with_gpus(pod, placement, node, runtime_class)
    if IsolationPath.DEVICE_CLAIM in node.available:
        claim = resource_claim(placement, pod["metadata"])
        return Rendered(_with_claim(pod, claim), ((RESOURCE_CLAIMS, claim),))
    if IsolationPath.DEVICE_PLUGIN in node.available:
        return Rendered(_with_extended_resources(pod, _shares(placement, node)))
    return Rendered(pod)


def asked_devices(placement: NodePlacement, node: NodeIsolation) -> Counter[str]:
    """Extended resource of other makers → number of devices of the placement."""
    return Counter(node.resources[uuid] for uuid in amounts_by_gpu(placement) if uuid in node.resources)


def _with_gpus(pod: Document, placement: NodePlacement, node: NodeIsolation, runtime_class: str) -> Document:
    """The pod with variables that name its GPUs and limit its memory. They come last, so that they count."""
    uuids = ",".join(amounts_by_gpu(placement))
    variables, spec = {"CUDA_VISIBLE_DEVICES": uuids}, pod["spec"]
    if not node.simulated:
        variables |= {"NVIDIA_VISIBLE_DEVICES": uuids, "NVIDIA_DRIVER_CAPABILITIES": DRIVER_CAPABILITIES}
        spec = spec | {"runtimeClassName": runtime_class}
    limit = _common_limit_mib(placement, node) if IsolationPath.MEMORY_LIMIT in node.available else None
    if limit is not None:  # with only one of both, the toolkit's hook sets no limit and says nothing
        variables |= {names.ENV_MEMORY_REQUEST: str(REQUEST_MIB), names.ENV_MEMORY_LIMIT: str(limit)}
    env = [*spec["containers"][0]["env"], *({"name": name, "value": value} for name, value in variables.items())]
    return _with_container(pod | {"spec": spec}, {"env": env})


def _common_limit_mib(placement: NodePlacement, node: NodeIsolation) -> int | None:
    """The limit of every GPU of the pod; None if shares differ, or if the pod has all of a GPU.

    The hook knows one limit for all GPUs of a container: a pod with shares of different sizes stays `Watched`.
    """
    shares = {uuid: memory for uuid, (memory, _) in amounts_by_gpu(placement).items()}
    whole = any(mib >= node.memory_mib.get(uuid, mib) for uuid, mib in shares.items())
    return next(iter(shares.values())) if len(set(shares.values())) == 1 and not whole else None


def _shares(placement: NodePlacement, node: NodeIsolation) -> dict[str, str]:
    found: dict[str, str] = {}
    for uuid, (mib, compute) in amounts_by_gpu(placement).items():
        found |= device_shares.requests(uuid, (mib, node.memory_mib.get(uuid, mib)), compute)
    return found


def _with_claim(pod: Document, claim: Document) -> Document:
    resources = pod["spec"]["containers"][0].get("resources", {}) | {"claims": [{"name": POD_CLAIM}]}
    reference = {"name": POD_CLAIM, "resourceClaimName": claim["metadata"]["name"]}
    made = _with_container(pod, {"resources": resources})
    return made | {"spec": made["spec"] | {"resourceClaims": [reference]}}


def _with_extended_resources(pod: Document, asked: Mapping[str, str]) -> Document:
    """The pod whose first container requests these. The API server wants extended resources with equal limits."""
    before = pod["spec"]["containers"][0].get("resources", {})
    resources = before | {kind: before.get(kind, {}) | dict(asked) for kind in ("requests", "limits")}
    return _with_container(pod, {"resources": resources})


def _with_container(pod: Document, changed: dict[str, Any]) -> Document:
    """The pod with these fields of its first container."""
    container, *others = pod["spec"]["containers"]
    return pod | {"spec": pod["spec"] | {"containers": [container | changed, *others]}}
