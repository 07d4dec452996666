"""One attempt of a job as a frozen value: what the builders of pods and side objects read, and the names they share.

`documents` makes it from a TrainingJob and its placement; `manifests` and `side_objects` turn it into objects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cotenant import contract, names
from cotenant.core.model.objects import GrantedGpu, NodePlacement, Placement, RankPlacement


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """What the pod of a parameter server asks for, each."""

    cpu_milli: int
    memory_mib: int
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerate_gpu_taints: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What runs in every pod, as the tenant wrote it."""

    image: str
    mode: contract.Mode
    command: tuple[str, ...] = ()
    entrypoint: str = ""
    framework: str = ""
    strategy: contract.Strategy = "AllReduce"
    collective: contract.Collective = "auto"
    precision: contract.Precision = "fp32"
    checkpoint: contract.CheckpointSpec | None = None
    env: tuple[Mapping[str, Any], ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    mounts: tuple[Mapping[str, Any], ...] = ()
    code: Mapping[str, Any] | None = None
    """Mounted read-only at names.CODE_PATH: `source`, a volume source, and perhaps `subPath`."""
    workers_min: int = 0
    servers: Servers | None = None
    platform: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    memory_mib: int
    simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One go at running a job."""

    namespace: str
    job: str
    uid: str
    queue: str
    number: int
    placement: Placement
    program: Program
    cpu_milli: int
    """Per worker."""
    memory_mib: int
    """Per worker."""
    grace_s: int = 30
    """Seconds between SIGTERM and SIGKILL."""
    gpus: Mapping[str, GpuFacts] = field(default_factory=dict)
    servers: int = 0
    """Pods of parameter servers: their node ranks come after those of the nodes."""

    def pod_name(self, node_rank: int) -> str:
        return pod_name(self.job, self.number, node_rank, nodes=len(self.placement.nodes))

    @property
    def secret_name(self) -> str:
        return f"{self.job}-{self.number}"

    @property
    def needs_ray(self) -> bool:
        return contract.needs_ray(self.program.mode, self.placement.workers)

    @property
    def needs_token(self) -> bool:
        """Ray's, and what the secret is made from that servers know their ranks by."""
        return self.needs_ray or self.servers > 0

    @property
    def needs_names(self) -> bool:
        """Pods of one need none to find each other by."""
        return len(self.placement.nodes) + self.servers > 1

    def metadata(self, name: str) -> dict[str, Any]:
        """Owned by the TrainingJob: what is made here goes when the job goes."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": {
                names.LABEL_MANAGED_BY: names.MANAGED_BY,
                names.LABEL_JOB: self.job,
                names.LABEL_JOB_UID: self.uid,
            },
            "ownerReferences": [
                {
                    "apiVersion": names.API_VERSION,
                    "kind": "TrainingJob",
                    "name": self.job,
                    "uid": self.uid,
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        }


def pod_name(job: str, attempt: int, node_rank: int, *, nodes: int) -> str:
    """`train-1-0` has the ranks of the first node, `train-1-s0` is the first parameter server."""
    return f"{job}-{attempt}-{node_rank}" if node_rank < nodes else f"{job}-{attempt}-s{node_rank - nodes}"


def placement_to_json(placement: NodePlacement) -> str:
    """For the pod's annotation: who sees what (`ranks`), and how much of it (`grants`)."""
    document = {
        "node": placement.node,
        "ranks": {str(rank.rank): [grant.uuid for grant in rank.gpus] for rank in placement.ranks},
        "grants": {
            str(rank.rank): [
                {"uuid": g.uuid, "memoryMiB": g.memory_mib, "computeMilli": g.compute_milli} for g in rank.gpus
            ]
            for rank in placement.ranks
        },
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def placement_from_json(text: str) -> NodePlacement | None:
    """The inverse; nothing when the annotation is not one of ours."""
    try:
        document = json.loads(text)
        return NodePlacement(
            node=document["node"],
            ranks=tuple(
                RankPlacement(
                    rank=int(rank),
                    gpus=tuple(
                        GrantedGpu(uuid=g["uuid"], memory_mib=g["memoryMiB"], compute_milli=g["computeMilli"])
                        for g in grants
                    ),
                )
                for rank, grants in sorted(document["grants"].items(), key=lambda item: int(item[0]))
            ),
        )
    except (json.JSONDecodeError, KeyError, TypeError, ValueError):
        return None
