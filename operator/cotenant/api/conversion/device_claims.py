"""ResourceClaims (`resource.k8s.io`) as the kube-scheduler has allocated them on GPUs that the agents publish.

A GPU is a device of the pool that has its node's name. Its own name follows from its UUID, so an allocation names the
GPU without a look at any ResourceSlice. Anybody may have written any part of a claim.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cotenant.api.scalars.quantities import MIB, QuantityError, mib_up, parse_kubernetes
from cotenant.names import DRA_DRIVER

MEMORY: Final = "memory"
COMPUTE: Final = "compute"
"""Capacities of a device: bytes, and thousandths of a GPU."""
UUID: Final = "uuid"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MOST: Final = 2**40
"""A larger amount counts as this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedDevice:
    """What one request of a claim holds of one device."""

    request: str
    pool: str
    device: str
    share_id: str = ""
    memory_mib: int | None = None
    compute_milli: int | None = None
    """None means all of the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedClaim:
    namespace: str
    name: str
    uid: str
    devices: tuple[ClaimedDevice, ...]
    """Devices of the agents' driver only. The claim may hold devices of others."""
    pods: tuple[str, ...] = ()
    """Uids of the pods for which it is reserved."""


def device_name(uuid: str, chars_max: int = 63) -> str:
    """The name of a GPU's device: its UUID in lower case, or a digest if that is too long or no DNS label."""
    lower = uuid.lower()
    if _LABEL.fullmatch(lower) and len(lower) <= chars_max:
        return lower
    return f"gpu-{hashlib.sha256(uuid.encode()).hexdigest()[:32]}"


def memory_quantity(mib: int) -> str:
    return f"{mib}Mi"


def allocated_claim(document: Mapping[str, Any]) -> AllocatedClaim | None:
    """The devices that a ResourceClaim holds now; None if it holds none of the agents'."""
    status, metadata = _mapping(document.get("status")), _mapping(document.get("metadata"))
    results = _list(_mapping(_mapping(status.get("allocation")).get("devices")).get("results"))
    devices = tuple(
        _claimed_device(result)
        for result in results
        if result.get("driver") == DRA_DRIVER and result.get("adminAccess") is not True
    )
    if not devices:
        return None
    users = (one for one in _list(status.get("reservedFor")) if one.get("resource") == "pods")
    return AllocatedClaim(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        devices=devices,
        pods=tuple(sorted(str(user.get("uid", "")) for user in users)),
    )


def _claimed_device(result: Mapping[str, Any]) -> ClaimedDevice:
    consumed = _mapping(result.get("consumedCapacity"))
    return ClaimedDevice(
        request=str(result.get("request", "")).partition("/")[0],  # a subrequest belongs to its request
        pool=str(result.get("pool", "")),
        device=str(result.get("device", "")),
        share_id=str(result.get("shareID") or ""),
        memory_mib=_amount(consumed.get(MEMORY), MIB),
        compute_milli=_amount(consumed.get(COMPUTE), 1),
    )


def _amount(value: Any, unit: int) -> int | None:
    """Whole units, rounded up. An amount that cannot be read counts as all of the device."""
    if value is None:
        return None
    try:
        amount = parse_kubernetes(value if isinstance(value, int) else str(value))
    except QuantityError:
        return None
    return min(mib_up(amount) if unit == MIB else amount, _MOST)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
