"""Parameter servers of a TrainingJob: number, size, node, and when they step."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from cotenant.api.scalars.amounts import CpuAmount, HostMemory
from cotenant.api.scalars.fields import NULL_IS_ABSENT, Bool, SelectedValue, Str, label_keys_rule, whole
from cotenant.api.validation.rules import Model, Rule

MAX_SERVERS = 64


class Update(StrEnum):
    SYNCHRONOUS = "Synchronous"
    ASYNCHRONOUS = "Asynchronous"


class ServerResources(Model):
    """CPU and memory of each server's pod: its requests and limits."""

    cpu: CpuAmount = 1000
    """CPUs per server."""
    memory: HostMemory = 4 * 1024**3
    """Memory per server."""


class ParameterServer(Model):
    """Each server is a pod of its own without a GPU. The kube-scheduler chooses its node."""

    servers: Annotated[int, *whole(1, MAX_SERVERS)] = 1
    """Number of servers. The parameters are divided among them."""
    update: Update = Update.SYNCHRONOUS
    """Whether a server waits for every worker's gradients before it steps."""
    resources: ServerResources = ServerResources()
    node_selector: Annotated[dict[Str, SelectedValue], Field(max_length=16, default_factory=dict), NULL_IS_ABSENT]
    """Labels that a server's node must carry, all of them. Default: any node; one without GPUs is preferred."""
    tolerate_gpu_taints: Bool = False
    """True: servers may also run on nodes that are tainted for GPU work, as the workers' pods may."""

    RULES: ClassVar[tuple[Rule, ...]] = (label_keys_rule("nodeSelector", "pool"),)
