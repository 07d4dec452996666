"""One attempt of a job as a frozen value: what the builders of pods and side objects read, and the names they share.

`from_job` makes it from a TrainingJob and its placement; `worker_pod`, `server_pod`, `evaluator_pod` and `side_objects`
build from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cotenant import contract, names
from cotenant.controller.manifests.owners import owner_reference
from cotenant.core.model.objects import Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPod:
    """Requests and node selection of a pod without a GPU: a parameter server's, or the evaluator's."""

    cpu_milli: int
    memory_mib: int
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerate_gpu_taints: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorProgram:
    """What the evaluator runs, and where."""

    mode: contract.Mode
    command: tuple[str, ...] = ()
    entrypoint: str = ""
    pod: CpuPod


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Program that runs in every pod, as the tenant wrote it."""

    image: str
    mode: contract.Mode
    image_pull_secrets: tuple[str, ...] = ()
    """Of the job's namespace."""
    command: tuple[str, ...] = ()
    entrypoint: str = ""
    framework: str = ""
    strategy: contract.Strategy = "AllReduce"
    collective: contract.Collective = "auto"
    precision: contract.Precision = "fp32"
    checkpoint: contract.CheckpointSpec | None = None
    data: tuple[contract.DataSource, ...] = ()
    env: tuple[Mapping[str, Any], ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    mounts: tuple[Mapping[str, Any], ...] = ()
    code: Mapping[str, Any] | None = None
    """Mounted read-only at names.CODE_PATH: a volume source under the key source, and perhaps `subPath`."""
    workers_min: int = 0
    servers: CpuPod | None = None
    evaluator: EvaluatorProgram | None = None
    platform: Mapping[str, Any] = field(default_factory=dict)


class HostAmounts(NamedTuple):
    """What ranks ask for of their node, or pods request of it, besides GPUs."""

    cpu_milli: int = 0
    memory_mib: int = 0
    scratch_mib: int = 0

    def beyond(self, other: HostAmounts) -> HostAmounts:
        """What these exceed the others by."""
        return HostAmounts(*(max(0, own - its) for own, its in zip(self, other, strict=True)))


NO_AMOUNTS: Final = HostAmounts()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    memory_mib: int
    simulated: bool
    resource: str = ""
    """Extended resource as which the kubelet hands it out; empty: by its UUID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of a job on one placement; a restart is the next attempt."""

    namespace: str
    job: str
    uid: str
    queue: str
    number: int
    placement: Placement
    program: Program
    each: HostAmounts
    """Per worker. A scratch of 0 in /tmp means what the operator gives every pod."""
    chief: HostAmounts | None = None
    """Of rank 0, in a job that names it the chief; None: as every worker."""
    grace_s: int = 30
    """Seconds between SIGTERM and SIGKILL."""
    gpus: Mapping[str, GpuFacts] = field(default_factory=dict)
    counted: frozenset[str] = frozenset()
    """Amounts that quotas of the namespace count, such as `limits.cpu`: see `quota_amounts`."""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the namespace that its pods carry too."""
    servers: int = 0
    """Pods of parameter servers: their node ranks come after those of the nodes."""

    def pod_name(self, node_rank: int) -> str:
        return pod_name(self.job, self.number, node_rank, nodes=len(self.placement.nodes), servers=self.servers)

    def amounts_on(self, node_rank: int) -> HostAmounts:
        """What the ranks of a node ask for together. Raises IndexError for a pod without ranks."""
        ranks = self.placement.nodes[node_rank].ranks
        head = self.chief if ranks[0].rank == 0 else None
        equal = len(ranks) - (head is not None)
        return HostAmounts(*(equal * own + its for own, its in zip(self.each, head or NO_AMOUNTS, strict=True)))

    @property
    def evaluator_rank(self) -> int:
        """Node rank of the evaluator's pod."""
        return len(self.placement.nodes) + self.servers

    def role(self, node_rank: int) -> contract.Role:
        if node_rank < len(self.placement.nodes):
            return contract.Role.WORKER
        return contract.Role.EVALUATOR if node_rank == self.evaluator_rank else contract.Role.PARAMETER_SERVER

    @property
    def secret_name(self) -> str:
        return token_secret_name(self.uid, self.number)

    @property
    def needs_ray(self) -> bool:
        return contract.needs_ray(self.program.mode, self.placement.workers)

    @property
    def needs_token(self) -> bool:
        """Token of Ray, and the secret from which parameter servers authenticate their ranks."""
        return self.needs_ray or self.servers > 0

    @property
    def needs_names(self) -> bool:
        """DNS names, by which the pods of an attempt of several find each other."""
        return self.evaluator_rank > 1 or self.program.evaluator is not None

    @property
    def is_one_pod(self) -> bool:
        """True if only the operator has to reach it."""
        return not self.needs_names

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of an object owned by the TrainingJob, so that Kubernetes collects it with the job; the name is to
        be added.
        """
        return {
            "namespace": self.namespace,
            "labels": {
                names.LABEL_MANAGED_BY: names.MANAGED_BY,
                names.LABEL_JOB: self.job,
                names.LABEL_JOB_UID: self.uid,
            },
            "ownerReferences": [owner_reference("TrainingJob", self.job, self.uid)],
        }


def token_secret_name(uid: str, attempt: int) -> str:
    """Name of the Secret of an attempt's token, which no other job and no other attempt can have."""
    return f"{names.SECRET_PREFIX}{uid}-{attempt}"


def pod_name(job: str, attempt: int, node_rank: int, *, nodes: int, servers: int) -> str:
    """Name of a pod: `train-1-0` has the ranks of the first node, `train-1-s0` is the first parameter server, and
    `train-1-e0` the evaluator.
    """
    if node_rank < nodes:
        return f"{job}-{attempt}-{node_rank}"
    index = node_rank - nodes
    return f"{job}-{attempt}-s{index}" if index < servers else f"{job}-{attempt}-e{index - servers}"
