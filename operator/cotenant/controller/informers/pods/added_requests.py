"""CPU, memory and scratch space that a pod with ranks requests beyond what its ranks ask for. Pure.

A LimitRange fills in a CPU request where the job names none, a webhook adds a container, a RuntimeClass has an
overhead. A quota makes the operator name the scratch space of a job that asks for none. The kube-scheduler counts all
of it, and no placement covers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant import names
from cotenant.api.conversion.pod_requests import pod_requests, scratch_request
from cotenant.contract import Role
from cotenant.controller.informers.pods.pod_identity import PodIdentity


def added_requests(document: Mapping[str, Any], worker: PodIdentity | None, total: tuple[int, int]) -> tuple[int, int]:
    """Milli-CPU and MiB. `total` is what the whole pod requests. Of a pod without ranks all is counted elsewhere."""
    if worker is None or worker.role is not Role.WORKER:
        return 0, 0
    cpu_milli, memory_mib = pod_requests(_own(document))
    written = cpu_milli if worker.cpu_milli is None else worker.cpu_milli
    return max(0, total[0] - written), max(0, total[1] - memory_mib)


def added_scratch(document: Mapping[str, Any], worker: PodIdentity | None, total_mib: int) -> int:
    """MiB of scratch space. Nothing was added to a pod of a release that does not say what its ranks ask for, except
    beside its own container.
    """
    if worker is None or worker.role is not Role.WORKER:
        return 0
    asked = scratch_request(_own(document)) if worker.scratch_mib is None else worker.scratch_mib
    return max(0, total_mib - asked)


def _own(document: Mapping[str, Any]) -> dict[str, Any]:
    """The pod with the operator's container alone."""
    every = document["spec"].get("containers") or ()
    return {"spec": {"containers": [one for one in every if one.get("name") == names.CONTAINER]}}
