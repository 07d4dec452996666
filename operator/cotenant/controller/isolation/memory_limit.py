"""Path A+: the driver refuses memory beyond a share, by a limit on the container's cgroup. Pure.

Two variables on the pod make the hook of NVIDIA's container toolkit (1.20.1 and later, driver r615, cgroup v2) set the
limit before the container starts. With only one of them it sets none and says nothing, so both are always written. The
hook knows one limit for all GPUs of a container: a pod with shares of different sizes gets none and stays `Watched`.
Managed memory, which the driver moves between host and GPU, is not under this limit, so the agent's watchdog goes on
beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cotenant import names
from cotenant.api.resources.gpunodes import DeviceLimit, Dimension, IsolationPath, LimitState
from cotenant.controller.client.kube import Document
from cotenant.controller.isolation.gpu_isolation import (
    PathAround,
    PodEvidence,
    Rendered,
    Verification,
    memory_by_gpu,
    with_env,
)
from cotenant.core.model.objects import NodePlacement

REQUEST_MIB: Final = 1
"""Size of the reservation. The driver adds it up in all parents of the container's cgroup, and they never get it back.
So it is as small as possible; the shares of a GPU never exceed the GPU anyway.
"""
PAGE_MIB: Final = 2
"""Largest page of GPU memory: by less than this a driver may round a limit."""


@dataclass(frozen=True, slots=True)
class MemoryLimitPath(PathAround):
    def render(self, placement: NodePlacement, pod: Document) -> Rendered:
        made = self.inner.render(placement, pod)
        limit = self._common_limit_mib(placement) if IsolationPath.MEMORY_LIMIT in self.node.available else None
        if limit is None:
            return made
        return Rendered(
            with_env(made.pod, {names.ENV_MEMORY_REQUEST: str(REQUEST_MIB), names.ENV_MEMORY_LIMIT: str(limit)}),
            made.side_objects,
        )

    def _common_limit_mib(self, placement: NodePlacement) -> int | None:
        """The limit of every GPU of the pod; None if shares differ, or if the pod has all of a GPU."""
        shares = memory_by_gpu(placement)
        whole = any(mib >= self.node.memory_mib.get(uuid, mib) for uuid, mib in shares.items())
        return next(iter(shares.values())) if len(set(shares.values())) == 1 and not whole else None

    def verify(self, placement: NodePlacement, evidence: PodEvidence) -> Verification:
        """`Hard` if every GPU of the pod has its limit in force. A limit that differs from its share is a mismatch.

        If the agent could not read a limit, the level stays what it is without the limit.
        """
        return self.verify_limits(placement, evidence, Dimension.MEMORY, memory_by_gpu(placement), _contradiction)


def _contradiction(limit: DeviceLimit, share_mib: int) -> str:
    if limit.state is LimitState.ABSENT:
        return f"the driver has no memory limit for this pod, its share is {share_mib} MiB"
    if limit.state is LimitState.IN_FORCE and abs((limit.in_force or 0) - share_mib) >= PAGE_MIB:
        return f"the driver limits this pod to {limit.in_force} MiB, its share is {share_mib} MiB"
    return ""
