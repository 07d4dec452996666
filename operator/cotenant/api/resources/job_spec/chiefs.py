"""Chief of a TrainingJob: rank 0, if it does more on its node than the other ranks."""

from __future__ import annotations

from cotenant.api.resources.job_spec.runtime import Resources
from cotenant.api.scalars.amounts import CpuAmount, HostMemory
from cotenant.api.validation.rules import Model


class ChiefResources(Model):
    """CPU and memory of the node for rank 0, in place of a worker's `resources`."""

    cpu: CpuAmount | None = None
    """CPUs of rank 0. Default: as every worker."""
    memory: HostMemory | None = None
    """Memory of the node for rank 0. Default: as every worker."""
    scratch: HostMemory | None = None
    """Space in /tmp for rank 0. Default: as every worker."""


class Chief(Model):
    """Rank 0 as a role of its own: COTENANT_ROLE and TF_CONFIG name it `chief`. Its GPUs are those of every worker."""

    resources: ChiefResources | None = None
    """Of the node. Default: as every worker."""

    def asked(self, worker: Resources) -> Resources:
        """What rank 0 asks for, in a job whose other ranks ask for `worker`."""
        own = self.resources or ChiefResources()
        given = {name: amount for name in type(own).model_fields if (amount := getattr(own, name)) is not None}
        return worker.model_copy(update=given)
