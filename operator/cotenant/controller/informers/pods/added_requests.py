"""CPU, memory and scratch space that a pod requests, and what of it its ranks did not ask for. Pure.

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
from cotenant.controller.manifests.attempt import NO_AMOUNTS, HostAmounts


def host_requests(document: Mapping[str, Any]) -> HostAmounts:
    """All containers of the pod together."""
    return HostAmounts(*pod_requests(document), scratch_request(document))


def added_requests(document: Mapping[str, Any], worker: PodIdentity | None, total: HostAmounts) -> HostAmounts:
    """`total` is what the whole pod requests. Of a pod without ranks all is counted elsewhere.

    Of a pod whose release does not say what its ranks ask for, the container of the operator counts as that.
    """
    if worker is None or worker.role is not Role.WORKER:
        return NO_AMOUNTS
    every = document["spec"].get("containers") or ()
    own = host_requests({"spec": {"containers": [one for one in every if one.get("name") == names.CONTAINER]}})
    cpu_milli = own.cpu_milli if worker.cpu_milli is None else worker.cpu_milli
    scratch_mib = own.scratch_mib if worker.scratch_mib is None else worker.scratch_mib
    return total.beyond(HostAmounts(cpu_milli, own.memory_mib, scratch_mib))
