"""CPU and memory that a pod with ranks requests beyond what the operator wrote. Pure.

A LimitRange fills in a CPU request where the job names none, a webhook adds a container, a RuntimeClass has an
overhead. The kube-scheduler counts all of it, and no placement covers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant import names
from cotenant.api.conversion.pod_requests import pod_requests
from cotenant.contract import Role
from cotenant.controller.informers.pods.pod_identity import PodIdentity


def added_requests(document: Mapping[str, Any], worker: PodIdentity | None, total: tuple[int, int]) -> tuple[int, int]:
    """Milli-CPU and MiB. `total` is what the whole pod requests. Of a pod without ranks all is counted elsewhere."""
    if worker is None or worker.role is not Role.WORKER:
        return 0, 0
    own = [one for one in document["spec"].get("containers") or () if one.get("name") == names.CONTAINER]
    cpu_milli, memory_mib = pod_requests({"spec": {"containers": own}})
    written = cpu_milli if worker.cpu_milli is None else worker.cpu_milli
    return max(0, total[0] - written), max(0, total[1] - memory_mib)
