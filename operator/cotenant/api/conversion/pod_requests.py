"""CPU, memory, scratch space and devices that a v1 Pod takes of its node, counted as the kube-scheduler counts.

Source: the function PodRequests of k8s.io/component-helpers (Kubernetes 1.36). An init container runs beside the
sidecars that started before it. Requests of the pod as a whole replace those of its containers. During a resize in
place, the larger of the requested and the granted amount counts, unless the node can never grant it. Counting less than
the kube-scheduler would make placements that no node accepts; counting more would leave GPUs idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from cotenant.api.scalars.quantities import amount_or_0, mib_up

Document = Mapping[str, Any]
_NO_STATUS: Final[Document] = {}
_SCRATCH: Final = "ephemeral-storage"


class _Requests(NamedTuple):
    """Milli-CPU and bytes."""

    cpu: int = 0
    memory: int = 0

    def plus(self, other: _Requests) -> _Requests:
        return _Requests(self.cpu + other.cpu, self.memory + other.memory)


_NOTHING: Final = _Requests()


def pod_requests(document: Document) -> tuple[int, int]:
    """Milli-CPU and MiB of a v1 Pod, including overhead. Amounts that cannot be read count as 0."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    total = _of_containers(spec, status)
    whole = (spec.get("resources") or {}).get("requests") or {}
    if whole:
        effective = _effective(whole, status, infeasible=_infeasible(status))
        total = _Requests(
            effective.cpu if "cpu" in whole else total.cpu, effective.memory if "memory" in whole else total.memory
        )
    total = total.plus(_read(spec.get("overhead")))
    return total.cpu, mib_up(total.memory)


def scratch_request(document: Document) -> int:
    """MiB of ephemeral storage that a v1 Pod requests, including overhead."""
    spec = document.get("spec") or {}
    overhead = (spec.get("overhead") or {}).get(_SCRATCH, 0)
    return mib_up(_summed(spec, _SCRATCH) + amount_or_0(overhead))


def extended_requests(document: Document) -> dict[str, int]:
    """Extended resource → number that a v1 Pod requests. Their names have a domain: a device plugin or a Node's status
    offers them.
    """
    spec = document.get("spec") or {}
    every = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    names = {name for container in every for name in _asked(container) if "/" in name}
    return {name: _summed(spec, name) for name in sorted(names)}


def _summed(spec: Document, name: str) -> int:
    """Scratch space or an extended resource, summed as in `_of_containers`. Requests of a whole pod and resizes do not
    apply to them.
    """
    sidecars, starting = 0, 0
    for container in spec.get("initContainers") or ():
        number = amount_or_0(_asked(container).get(name, 0))
        if container.get("restartPolicy") == "Always":
            sidecars += number
            starting = max(starting, sidecars)
        else:
            starting = max(starting, sidecars + number)
    running = sum(amount_or_0(_asked(container).get(name, 0)) for container in spec.get("containers") or ())
    return max(running + sidecars, starting)


def _of_containers(spec: Document, status: Document) -> _Requests:
    infeasible = _infeasible(status)
    by_name = {one.get("name"): one for one in status.get("containerStatuses") or ()}
    by_name_init = {one.get("name"): one for one in status.get("initContainerStatuses") or ()}
    running = _NOTHING
    for container in spec.get("containers") or ():
        running = running.plus(_of_container(container, by_name, infeasible=infeasible))
    sidecars, starting = _NOTHING, _NOTHING
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars = sidecars.plus(_of_container(container, by_name_init, infeasible=infeasible))
            starting = _largest((starting, sidecars))
        else:
            starting = _largest((starting, sidecars.plus(_read(_asked(container)))))
    return _largest((running.plus(sidecars), starting))


def _of_container(container: Document, statuses: Mapping[Any, Document], *, infeasible: bool) -> _Requests:
    return _effective(_asked(container), statuses.get(container.get("name"), _NO_STATUS), infeasible=infeasible)


def _effective(asked: Document, status: Document, *, infeasible: bool) -> _Requests:
    """The largest of the amounts that a container or a whole pod requests, was granted, and has in force."""
    in_force = status.get("resources")
    if in_force is None:
        return _read(asked)
    given = (_read(in_force.get("requests")), _read(status.get("allocatedResources")))
    return _largest(given if infeasible else (_read(asked), *given))


def _infeasible(status: Document) -> bool:
    """True if a resize is requested that the node can never grant: the granted amount stays."""
    return any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )


def _asked(container: Document) -> Document:
    return (container.get("resources") or {}).get("requests") or {}


def _largest(amounts: Iterable[_Requests]) -> _Requests:
    amounts = tuple(amounts)
    return _Requests(max(one.cpu for one in amounts), max(one.memory for one in amounts))


def _read(requests: Document | None) -> _Requests:
    if not requests:
        return _NOTHING
    return _Requests(amount_or_0(requests.get("cpu", 0), scale=1000), amount_or_0(requests.get("memory", 0)))
