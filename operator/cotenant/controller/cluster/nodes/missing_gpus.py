"""GPUs that an agent no longer lists. They are kept while pods may still hold them. Time comes in as data.

After a restart of an agent or a driver, or after a deletion of the GPUNode, a node has no GPUs for some seconds. A
deleted Node leaves pods behind, which their kubelet ends later. Until then the GPUs count for quotas, and take nothing
new. The core decides whether their holders have to leave (`Policy.missing_grace_s`).
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.core.model.objects import Gpu

KEPT_S = 300.0
"""After this time a missing GPU is forgotten. It is longer than the core's patience plus the grace period of a job."""


class MissingGpus:
    def __init__(self) -> None:
        self._known: dict[str, tuple[Gpu, ...]] = {}
        """Node → its GPUs, listed or missing."""
        self._lister: dict[str, str] = {}
        """UUID → the node that listed it last."""

    def update(self, node: str, listed: tuple[Gpu, ...], now: float) -> tuple[Gpu, ...]:
        """Store the GPUs that a node lists now. Returns these and its missing ones."""
        self._lister |= {gpu.uuid: node for gpu in listed}
        here = {gpu.uuid for gpu in listed}
        unseen = (_as_missing(gpu, now) for gpu in self._known.pop(node, ()) if gpu.uuid not in here)
        gpus = (*listed, *(gpu for gpu in unseen if not self._is_over(node, gpu, now)))
        if gpus:
            self._known[node] = gpus
        return gpus

    def expired(self, now: float) -> set[str]:
        """Nodes with a GPU that is to be forgotten now."""
        return {node for node, gpus in self._known.items() if any(self._is_over(node, gpu, now) for gpu in gpus)}

    def _is_over(self, node: str, gpu: Gpu, now: float) -> bool:
        """True if the GPU is missing for too long, or another node lists it."""
        return gpu.missing_since is not None and (now - gpu.missing_since >= KEPT_S or self._lister[gpu.uuid] != node)


def _as_missing(gpu: Gpu, now: float) -> Gpu:
    return gpu if gpu.missing_since is not None else replace(gpu, healthy=False, missing_since=now)
