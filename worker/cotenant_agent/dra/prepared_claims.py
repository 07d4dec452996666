"""Claims that are prepared on this node: which GPUs they hold, and when another one may be prepared. Pure.

The kubelet asks again after every failure and restart, so preparing what is prepared changes nothing. Whatever the
scheduler has allocated, no GPU is prepared beyond its capacity: a claim whose pod was deleted by force may be given to
another pod by the scheduler while the first one's containers still run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from cotenant.api.conversion.device_claims import AllocatedClaim, device_name
from cotenant_agent.dra.resource_slices import WHOLE_MILLI
from cotenant_agent.enforcement.quota import PodQuota
from cotenant_agent.gpus.readings import Gpu


class RefusedClaimError(Exception):
    """The claim cannot be prepared now; the kubelet shows the message at the pod, and asks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevice:
    request: str
    device: str
    share_id: str
    uuid: str
    memory_mib: int
    compute_milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedClaim:
    namespace: str
    name: str
    uid: str
    pool: str
    devices: tuple[PreparedDevice, ...]
    pods: tuple[str, ...]
    """Uids of the pods that it was reserved for when it was prepared."""


PreparedClaims: TypeAlias = Mapping[str, PreparedClaim]
"""By uid of the claim."""


def prepared(before: PreparedClaims, claim: AllocatedClaim, gpus: Iterable[Gpu], node: str) -> PreparedClaim:
    """What `claim` holds here, once it fits beside what is prepared already. Raises RefusedClaimError."""
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


def without_claim(grant: PodQuota) -> PreparedClaim:
    """What a pod of the operator holds that was made without a claim, in the same terms."""
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
    """The first GPU of which the claims together hold more than there is, and who holds it; empty when there is none.

    A GPU that has gone from the inventory is not judged: nothing new is prepared on it.
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
    return asdict(claim)


def from_document(document: Mapping[str, Any]) -> PreparedClaim:
    """Raises KeyError, TypeError or ValueError for what is no prepared claim."""
    devices = tuple(PreparedDevice(**one) for one in document["devices"])
    if any(type(one.memory_mib) is not int or type(one.compute_milli) is not int for one in devices):
        raise ValueError("amounts are whole numbers")
    return PreparedClaim(**{**document, "devices": devices, "pods": tuple(document["pods"])})
