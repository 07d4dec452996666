"""The quota that has to rise before a job starts: a limit of all zones or of one, or a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cotenant.core.allocation.occupancy import Occupancy
from cotenant.core.allocation.request import Option, Request
from cotenant.core.cycle.search import headroom
from cotenant.core.model.measure import BindingLimit
from cotenant.core.placement.gang import max_workers
from cotenant.core.quota.headroom import GUARANTEE_OF, UNLIMITED, Headroom

_WHY_A_ZONE = "Without this limit there would be room."
_WHY_A_GUARANTEE = "It is not preemptible, and such a job runs only inside a guarantee."


@dataclass(frozen=True, slots=True)
class BindingQuota:
    """What keeps a request from one way to run."""

    option: Option
    """The way to run."""
    workers: int
    """Workers that it still allows. The more, the nearer is the job to a start."""
    limit: BindingLimit
    or_space: bool = False
    """True if a place that becomes free in another zone would help as well."""
    why: str = ""
    """A sentence, if the numbers alone do not explain it."""


def nearest_quota(current: Occupancy, request: Request) -> Option | BindingQuota:
    """The first way to run that quotas allow, or else the quota that is nearest to allowing one."""
    blocked: list[BindingQuota] = []
    for option in request.options:
        binding = binding_quota(current, request, option)
        if binding is None:
            return option
        blocked.append(binding)
    return max(blocked, key=lambda one: one.workers)


def binding_quota(current: Occupancy, request: Request, option: Option) -> BindingQuota | None:
    """None: quotas leave enough, and what is missing is room."""
    allowed = headroom(current.usage, request, option, current.lendable_idle())
    if allowed.workers < request.workers and allowed.binding is not None:
        return _binding(option, allowed.workers, allowed.binding)
    limited = sorted({zone for _, zone in option.buckets} & allowed.zone_workers.keys())
    if not limited or _room(current, option, allowed.zone_workers) >= request.workers:
        return None
    return _of_a_zone(current, request, option, allowed, limited)


def _binding(
    option: Option, workers: int, limit: BindingLimit, why: str = "", *, or_space: bool = False
) -> BindingQuota:
    is_guarantee = limit.scope.startswith(GUARANTEE_OF)
    return BindingQuota(option, workers, limit, or_space, f"{_WHY_A_GUARANTEE} {why}".rstrip() if is_guarantee else why)


def _of_a_zone(
    current: Occupancy, request: Request, option: Option, allowed: Headroom, limited: Sequence[str]
) -> BindingQuota | None:
    """The quota of the zone whose limit costs most room; of equal ones, the one that leaves most workers."""
    left, rooms = allowed.zone_workers, []
    for zone in limited:
        room = _room(current, option, {name: few for name, few in left.items() if name != zone})
        rooms.append((min(room, request.workers), left[zone], zone))
    room, _, zone = max(rooms, key=lambda each: each[:2])
    limit = allowed.zone_binding[zone]
    if sum(left.get(zone, UNLIMITED) for zone in {zone for _, zone in option.buckets}) < request.workers:
        return _binding(option, 0, limit)
    if _room(current, option, {}) < request.workers:
        return None
    why = _WHY_A_ZONE if room == request.workers else ""
    return _binding(option, request.workers, limit, why, or_space=True)


def _room(current: Occupancy, option: Option, zone_workers: dict[str, int]) -> int:
    """Workers that fit if quotas leave so many in each zone."""
    return max_workers(current.fit_cache, replace(option.placement_request, zone_workers=zone_workers))
