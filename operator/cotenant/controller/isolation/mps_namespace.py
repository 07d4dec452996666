"""Shares of compute, held by MPS: a namespace for the pod's claim on each of its GPUs, with the share as ceiling. Pure.

The agent makes the namespaces out of the amounts of the claim, when the kubelet has it prepared, and the claim's CDI
device brings them into the container: so nothing is added to what path C renders. Memory stays what other paths make
of it, because a program can drop the limit of memory that MPS has for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cotenant.api.resources.gpunodes import DeviceLimit, Dimension, LimitState
from cotenant.controller.isolation.gpu_isolation import (
    PathAround,
    PodEvidence,
    Verification,
    amounts_by_gpu,
)
from cotenant.core.model.objects import NodePlacement

STEP_MILLI: Final = 10
"""MPS counts in percents: by less than this a ceiling differs from its share."""


@dataclass(frozen=True, slots=True)
class MpsNamespacePath(PathAround):
    """Path around that of the claims, which it needs."""

    def verify(self, placement: NodePlacement, evidence: PodEvidence) -> Verification:
        """`Hard` for compute if the agent saw every process of the pod in its namespace.

        A process outside of it, or a ceiling that differs from the share, is a mismatch. What could not be read counts
        as neither.
        """
        shares = {uuid: compute for uuid, (_, compute) in amounts_by_gpu(placement).items()}
        return self.verify_limits(placement, evidence, Dimension.COMPUTE, shares, _contradiction)


def _contradiction(limit: DeviceLimit, share_milli: int) -> str:
    if limit.state is LimitState.ABSENT:
        return f"MPS does not hold this pod to its share of {share_milli} milli-GPU"
    if limit.state is LimitState.IN_FORCE and abs((limit.in_force or 0) - share_milli) >= STEP_MILLI:
        return f"MPS lets this pod have {limit.in_force} milli-GPU, its share is {share_milli}"
    return ""
