"""Claims that are prepared on this node: which GPUs they hold, and when another one may be prepared. Pure.

The kubelet repeats its calls after every failure and restart, so preparing a prepared claim changes nothing. No GPU is
prepared beyond its capacity, whatever the scheduler has allocated: if a pod is deleted by force, the scheduler may give
its claim to another pod while its containers still run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from cotenant.api.conversion.device_claims import AllocatedClaim, device_name
from cotenant_agent.dra.resource_slices import WHOLE_MILLI
from cotenant_agent.enforcement.quota import PodQuota
from cotenant_agent.gpus.readings import Gpu


class RefusedClaimError(Exception):
    """The claim cannot be prepared now. The kubelet shows the message on the pod and asks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevice:
    request: str
    device: str
    share_id: str
    uuid: str
    memory_mib: int
    compute_milli: int
    namespace: str = ""
    """MPS namespace that limits the claim to this share of compute; empty if nothing limits it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedClaim:
    namespace: str
    name: str
    uid: str
    pool: str
    devices: tuple[PreparedDevice, ...]
    pods: tuple[str, ...]
    """Uids of the pods for which the claim was reserved when it was prepared."""


PreparedClaims: TypeAlias = Mapping[str, PreparedClaim]
"""By uid of the claim."""


def prepared(before: PreparedClaims, claim: AllocatedClaim, gpus: Iterable[Gpu], node: str) -> PreparedClaim:
    """What `claim` holds here, if it fits beside the prepared claims. Raises RefusedClaimError."""
    if (known := before.get(claim.uid)) is not None:
        return known
    by_device = {device_name(gpu.uuid): gpu for gpu in gpus}
    devices = []
    for one in claim.devices:
        if one.pool != node:
            raise RefusedClaimError(f"device {one.device} is of pool {one.pool}, and this is node {node}")
        gpu = by_device.get(one.device)
        if gpu is None:
            raise RefusedClaimError(f"node {node} has no GPU of the device name {one.device}")
        devices.append(
            PreparedDevice(
                request=one.request,
                device=one.device,
                share_id=one.share_id,
                uuid=gpu.uuid,
                memory_mib=gpu.memory_mib if one.memory_mib is None else one.memory_mib,
                compute_milli=WHOLE_MILLI if one.compute_milli is None else one.compute_milli,
            )
        )
    new = PreparedClaim(
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
        pool=node,
        devices=tuple(devices),
        pods=claim.pods,
    )
    if why := overcommitted([*before.values(), new], by_device.values()):
        raise RefusedClaimError(why)
    return new


def with_namespaces(
    before: PreparedClaims, claim: PreparedClaim, gpus: Iterable[Gpu], name: str, *, starting: bool = True
) -> PreparedClaim:
    """The claim with an MPS namespace on every GPU that it does not hold whole.

    A claim gets none on a GPU that is already held without a namespace, because that GPU is open to all processes. On a
    GPU that the MPS server has, every claim needs one. On other GPUs it gets one if MPS may be started there. MIG
    instances have none.
    """
    able = {gpu.uuid: gpu for gpu in gpus if not (gpu.mig or gpu.parent)}
    open_to_all = {one.uuid for other in before.values() for one in other.devices if not one.namespace}
    served = {one.uuid for other in before.values() for one in other.devices if one.namespace}
    held = {uuid: amounts_on(claim, uuid) for uuid in {one.uuid for one in claim.devices}}
    limited = {
        uuid
        for uuid, (memory, compute) in held.items()
        if uuid in able
        and uuid not in open_to_all
        and (starting or uuid in served)
        and (memory < able[uuid].memory_mib or compute < WHOLE_MILLI)
    }
    devices = tuple(replace(one, namespace=name) if one.uuid in limited else one for one in claim.devices)
    return replace(claim, devices=devices)


def amounts_on(claim: PreparedClaim, uuid: str) -> tuple[int, int]:
    """MiB and milli-GPU of one GPU that all requests of a claim hold together."""
    here = [one for one in claim.devices if one.uuid == uuid]
    return sum(one.memory_mib for one in here), sum(one.compute_milli for one in here)


def without_claim(grant: PodQuota) -> PreparedClaim:
    """What a pod of the operator without a claim holds, in the form of a claim."""
    devices = tuple(
        PreparedDevice(
            request="",
            device=device_name(uuid),
            share_id="",
            uuid=uuid,
            memory_mib=mib,
            compute_milli=grant.compute_milli.get(uuid, 0),
        )
        for uuid, mib in grant.quota_mib.items()
    )
    return PreparedClaim(
        namespace=grant.namespace, name=grant.pod, uid=grant.pod_uid, pool="", devices=devices, pods=(grant.pod_uid,)
    )


def overcommitted(claims: Iterable[PreparedClaim], gpus: Iterable[Gpu]) -> str:
    """The first GPU of which the claims hold more than there is, and its holders; empty if there is none.

    A GPU that is missing from the inventory is not judged: nothing new is prepared on it.
    """
    memory: dict[str, int] = {}
    compute: dict[str, int] = {}
    holders: dict[str, list[str]] = {}
    for claim in claims:
        for one in claim.devices:
            memory[one.uuid] = memory.get(one.uuid, 0) + one.memory_mib
            compute[one.uuid] = compute.get(one.uuid, 0) + one.compute_milli
            holders.setdefault(one.uuid, []).append(f"{claim.namespace}/{claim.name}")
    for gpu in gpus:
        if memory.get(gpu.uuid, 0) > gpu.memory_mib or compute.get(gpu.uuid, 0) > WHOLE_MILLI:
            return (
                f"GPU {gpu.uuid} has {gpu.memory_mib} MiB and {WHOLE_MILLI} milli-GPU, and "
                f"{', '.join(sorted(holders[gpu.uuid]))} hold {memory[gpu.uuid]} MiB and {compute[gpu.uuid]}"
            )
    return ""


def to_document(claim: PreparedClaim) -> dict[str, Any]:
    """The document. It has no namespaces if there are none, so that an older agent can read it."""
    document = asdict(claim)
    for one in document["devices"]:
        if not one["namespace"]:
            del one["namespace"]
    return document


def from_document(document: Mapping[str, Any]) -> PreparedClaim:
    """Raises KeyError, TypeError or ValueError if the document is not a prepared claim."""
    devices = tuple(PreparedDevice(**one) for one in document["devices"])
    if any(type(one.memory_mib) is not int or type(one.compute_milli) is not int for one in devices):
        raise ValueError("amounts are whole numbers")
    return PreparedClaim(**{**document, "devices": devices, "pods": tuple(document["pods"])})
