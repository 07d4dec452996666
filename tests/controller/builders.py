"""Small documents and values for the pure tests: keyword functions with defaults, nothing that talks to anybody."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from cotenant import contract, names
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.cluster.budgets.budgets import Budgets
from cotenant.controller.cluster.cluster_view import ClusterView, Synced
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobId, read_job
from cotenant.controller.informers.pods.disruption import Disruption
from cotenant.controller.informers.pods.pod_identity import PodIdentity
from cotenant.controller.informers.pods.pod_record import Exit, PodRecord
from cotenant.controller.isolation.verification import NOTHING
from cotenant.controller.lifecycle import plan_transitions, status_transitions
from cotenant.controller.lifecycle.observation import Observation, PlacementObserved, PodsObserved
from cotenant.controller.manifests.attempt import Attempt, GpuFacts, HostAmounts, Program
from cotenant.controller.manifests.placement_annotation import placement_to_json
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from cotenant.core.model.objects import GrantedGpu, NodePlacement, Placement, RankPlacement
from cotenant.core.snapshot.snapshot import Snapshot

T0 = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
UID = "11111111-1111-1111-1111-111111111111"
JOB_ID = JobId("red", "train", UID)


def placement_on(*nodes: tuple[str, int], memory_mib: int = 32_768, compute_milli: int = 400) -> Placement:
    """`("n1", 2), ("n2", 1)`: two ranks on n1, one on n2, each with a share of its own GPU."""
    ranks = iter(range(10_000))
    return Placement(
        nodes=tuple(
            NodePlacement(
                node=node,
                ranks=tuple(
                    RankPlacement(
                        rank=next(ranks),
                        gpus=(GrantedGpu(uuid=f"GPU-{node}-{i}", memory_mib=memory_mib, compute_milli=compute_milli),),
                    )
                    for i in range(count)
                ),
            )
            for node, count in nodes
        )
    )


def job_document(name: str = "train", status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {
            "name": name,
            "namespace": "red",
            "uid": UID,
            "resourceVersion": "5",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "queue": "red",
            "workers": 2,
            "gpu": {"memoryFraction": "0.4"},
            "runtime": {"entrypoint": "train:main"},
            **spec,
        },
        **({"status": status} if status is not None else {}),
    }


def pod_document(rank: int = 0, *, attempt: int = 1, node: str = "n1", uid: str = "", **parts: Any) -> dict[str, Any]:
    """A pod of a job as the API server has it. `parts`: `status`, `version`, `deleting`, `placement`; `server` or
    `evaluator` for a pod without ranks.
    """
    placement = parts.get("placement") or placement_on((node, 1)).nodes[0]
    server, evaluates = parts.get("server", False), parts.get("evaluator", False)
    grant = contract_of(rank, attempt, placement, server=server, evaluator=evaluates)
    behind = "s0" if server else "e0" if evaluates else str(rank)
    deleting = {"deletionTimestamp": "2026-01-01T00:01:00Z"} if parts.get("deleting") else {}
    return {
        "metadata": {
            "name": f"train-{attempt}-{behind}",
            "namespace": "red",
            "uid": uid or f"pod-{attempt}-{rank}",
            "resourceVersion": str(parts.get("version", 10)),
            "labels": {
                names.LABEL_MANAGED_BY: names.MANAGED_BY,
                names.LABEL_JOB: "train",
                names.LABEL_JOB_UID: UID,
                names.LABEL_ATTEMPT: str(attempt),
                names.LABEL_NODE_RANK: str(rank),
                names.LABEL_QUEUE: "red",
            },
            "annotations": {names.ANNOTATION_PLACEMENT: placement_to_json(placement)},
            "ownerReferences": [{"kind": "TrainingJob", "uid": UID, "name": "train"}],
            **deleting,
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {
                    "name": names.CONTAINER,
                    "env": [{"name": name, "value": text} for name, text in grant.to_environment().items()],
                    "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
                }
            ],
        },
        "status": parts.get("status", {"phase": "Pending"}),
    }


def claim_document(name: str, *held: tuple[str, str, int | None, int | None]) -> dict[str, Any]:
    """A ResourceClaim of `guests`. `held`: node, device, MiB and milli-GPU, None for all of the device."""
    results = []
    for node, device, memory_mib, compute_milli in held:
        result: dict[str, Any] = {"request": "g", "driver": names.DRA_DRIVER, "pool": node, "device": device}
        if memory_mib is not None:
            result["consumedCapacity"] = {"memory": f"{memory_mib}Mi", "compute": str(compute_milli)}
        results.append(result)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "guests", "uid": f"claim-{name}", "resourceVersion": "1"},
        "status": {"allocation": {"devices": {"results": results}}} if results else {},
    }


def contract_of(
    rank: int, attempt: int, placement: NodePlacement, *, server: bool = False, evaluator: bool = False
) -> contract.Contract:
    """The contract of the pod of this node rank. All pods of the attempt get the same GPUs; pods without ranks get
    none.
    """
    ranks = tuple(
        contract.RankGrant(
            one.rank, tuple(contract.GpuGrant(g.uuid, g.memory_mib, g.compute_milli, whole=False) for g in one.gpus)
        )
        for one in placement.ranks
    )
    pods = (contract.PodGrant(host="host", ranks=ranks),) * (rank if server or evaluator else rank + 1)
    servers = ("server",) if server else ()
    own = contract.EvaluatorSpec("evaluator", "entrypoint") if evaluator else None
    return contract.Contract("train", "red", UID, attempt, rank, pods, "entrypoint", servers=servers, evaluator=own)


def terminated(code: int, **told: Any) -> dict[str, Any]:
    """A pod status: the container ended with this code; `told` is what its launcher left."""
    message = json.dumps({"node_rank": 0, "attempt": 1, "code": code, "reason": "UserError", **told}) if told else ""
    state = {"exitCode": code, "reason": "Error", "message": message, "finishedAt": "2026-01-01T00:00:30Z"}
    return {
        "phase": "Succeeded" if code == 0 else "Failed",
        "containerStatuses": [{"name": names.CONTAINER, "state": {"terminated": state}}],
    }


def pod(
    rank: int = 0,
    *,
    attempt: int = 1,
    node: str = "n1",
    ready: bool = False,
    end: Exit | None = None,
    deleting: bool = False,
    waiting: str | None = None,
    disruption: Disruption | None = None,
    preparing_since: float = 0.0,
) -> PodRecord:
    """A pod of ranks. `waiting`: why its container does not start; empty: its image is pulled; None: it runs."""
    return PodRecord(
        namespace="red",
        name=f"train-{attempt}-{rank}",
        uid=f"pod-{attempt}-{rank}",
        version=1,
        worker=PodIdentity(
            job=JOB_ID,
            attempt=attempt,
            node_rank=rank,
            placement=placement_on((node, 1)).nodes[0],
        ),
        queue_label="red",
        node=node,
        ready=ready,
        exit=end,
        deleting=deleting,
        waiting=waiting or "",
        disruption=disruption,
        preparing_since=preparing_since,
        started_at=T0 if waiting is None and not preparing_since else 0.0,
    )


def server(index: int = 0, *, nodes: int, attempt: int = 1, node: str = "cpu", **facts: Any) -> PodRecord:
    """The pod of a parameter server beside those of so many nodes."""
    made = pod(nodes + index, attempt=attempt, node=node, **facts)
    assert made.worker is not None
    worker = replace(made.worker, placement=None, role=contract.Role.PARAMETER_SERVER)
    return replace(made, name=f"train-{attempt}-s{index}", uid=f"pod-{attempt}-s{index}", worker=worker)


def evaluator(*, nodes: int, attempt: int = 1, node: str = "cpu", **facts: Any) -> PodRecord:
    """The pod of the evaluator beside those of so many nodes. `again`: its last exit; `restarts` by its kubelet."""
    again, restarts = facts.pop("again", None), facts.pop("restarts", 0)
    made = pod(nodes, attempt=attempt, node=node, **facts)
    assert made.worker is not None
    worker = replace(made.worker, placement=None, role=contract.Role.EVALUATOR)
    name = f"train-{attempt}-e0"
    return replace(made, name=name, uid=f"pod-{attempt}-e0", worker=worker, earlier_exit=again, restarts=restarts)


def exited(code: int, at: float = T0 + 100, **told: Any) -> Exit:
    """An exit; with `told`, the launcher's own words."""
    fields = {"node_rank": 0, "attempt": 1, "code": code, "reason": "UserError", **told}
    return Exit(code=code, reason="Error", at=at, termination=contract.Termination(**fields) if told else None)


def admitted(phase: Phase, *nodes: tuple[str, int], servers: int = 0, **changes: Any) -> TrainingJobStatus:
    """The status of a job that was admitted at T0 and, for Running, ran from T0 + 10."""
    status = plan_transitions.admitted(
        TrainingJobStatus(), placement_on(*nodes), NOTHING, "admitted", T0, servers=servers
    )
    if phase is not Phase.STARTING:
        status = status_transitions.moved(
            status, LifecycleEvent.WORKERS_READY, reason="Running", message="", now=T0 + 10
        )
    if phase is Phase.EVICTING:
        status = status_transitions.evicting(
            status, LifecycleEvent.EVICTED, kind="Preempted", message="for a/b", now=T0 + 50
        )
    return status.model_copy(update=changes)


def observed(status: TrainingJobStatus, *pods: PodRecord, now: float = T0 + 100, **changes: Any) -> Observation:
    """`spec` may be given as the fields to change of the usual job; `changes` go into the part that has the field."""
    record = read_job(job_document(**changes.pop("spec", {})))
    assert record.job is not None, record.problem
    of_pods = {
        name: changes.pop(name)
        for name in ("departed", "gone", "disruptions", "violations", "causes", "unreachable_nodes")
        if name in changes
    }
    in_placement = (
        "held_milli",
        "error",
        "isolation",
        "sick_gpus",
        "creation_rejection",
        "creation_refusal",
        "creation_delay",
        "evaluator_refusal",
    )
    of_placement = {"held_milli": 800} | {name: changes.pop(name) for name in in_placement if name in changes}
    return Observation(
        record=replace(record, status=status, deleting=changes.pop("deleting", False)),
        of_pods=PodsObserved(pods=pods, **of_pods),
        of_placement=PlacementObserved(**of_placement),
        now=now,
        **changes,
    )


@dataclass(slots=True)
class ObservedCluster:
    """Objects that were observed, and what the core sees of them."""

    cache: ObjectCache
    view: ClusterView

    def sync(self, now: float) -> Synced:
        return self.view.sync(now)

    def snapshot(self, now: float) -> Snapshot:
        return self.view.snapshot(now)


def new_cluster(clock: Callable[[], float] = time.time) -> ObservedCluster:
    cache = ObjectCache(clock=clock)
    return ObservedCluster(cache, ClusterView(cache, JobMemories(), Settings(), Budgets()))


GPUS = {f"GPU-{node}-{i}": GpuFacts(memory_mib=81_920, simulated=True) for node in ("n1", "n2") for i in range(4)}


def attempt(*nodes: tuple[str, int], program: Program | None = None, **changes: Any) -> Attempt:
    fields: dict[str, Any] = {
        "namespace": "red",
        "job": "train",
        "uid": UID,
        "queue": "red",
        "number": 3,
        "placement": placement_on(*(nodes or (("n1", 2), ("n2", 1)))),
        "program": program or Program(image="example.com/worker:1", mode="entrypoint", entrypoint="train:main"),
        "each": HostAmounts(1500, 2048),
        "grace_s": 45,
        "gpus": GPUS,
    }
    return Attempt(**(fields | changes))
