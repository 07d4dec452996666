"""GPUs that an agent does not list any more, kept as long as pods may still hold them. Time comes in as data.

An agent that restarts, a driver that reloads or a GPUNode that is deleted shows a node without its GPUs for some
seconds; a Node that is deleted leaves pods behind, which their kubelet ends in its own time. The GPUs are counted as
long, as GPUs that take nothing new, so that quotas go on counting them.
Whether their holders have to leave is for the core to decide (`Policy.missing_grace_s`).
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.core.model.objects import Gpu

KEPT_S = 300.0
"""Longer than the core's patience and the grace period of a job that leaves; then the GPU is forgotten."""


class MissingGpus:
    def __init__(self) -> None:
        self._known: dict[str, tuple[Gpu, ...]] = {}
        """Node → its GPUs, listed or unseen."""
        self._lister: dict[str, str] = {}
        """UUID → the node that listed it last."""

    def update(self, node: str, listed: tuple[Gpu, ...], now: float) -> tuple[Gpu, ...]:
        """Take in what is listed now. Returns what the node has: that, and what was listed until lately."""
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
        """Away for too long, or listed by another node."""
        return gpu.missing_since is not None and (now - gpu.missing_since >= KEPT_S or self._lister[gpu.uuid] != node)


def _as_missing(gpu: Gpu, now: float) -> Gpu:
    return gpu if gpu.missing_since is not None else replace(gpu, healthy=False, missing_since=now)
