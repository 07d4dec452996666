"""GPUs that ResourceClaims of others hold are counted before anything is decided, in every order of events."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.controller.client.kube import GPU_NODES, NODES, PODS, QUEUES, RESOURCE_CLAIMS, TRAINING_JOBS, Resource
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import Gpu, Node
from cotenant.core.model.plan import Admit, Evict
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from tests.controller.builders import (
    T0,
    ObservedCluster,
    admitted,
    claim_document,
    job_document,
    new_cluster,
    placement_on,
    pod_document,
)

GPUS, MIB = 2, 81_920
NODE = Node(
    name="n1",
    gpus=tuple(Gpu(uuid=f"GPU-{index}", gpu_class="H100", memory_mib=MIB, index=index) for index in range(GPUS)),
    cpu_milli=64_000,
    memory_mib=512_000,
)


def gpu_node(*gpus: int) -> dict[str, Any]:
    listed = [{"uuid": f"GPU-{i}", "index": i, "class": "H100", "memoryMiB": MIB, "healthy": True} for i in gpus]
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "GPUNode",
        "metadata": {"name": "n1", "uid": "gpu-node"},
        "status": {"heartbeat": "2026-01-01T00:00:00Z", "simulated": True, "gpus": listed},
    }


class World:
    """One node of two GPUs, a queue, and all writes in their order."""

    def __init__(self) -> None:
        self.operator: ObservedCluster = new_cluster(clock=lambda: T0)
        self.versions = itertools.count(1)
        conditions = [{"type": "Ready", "status": "True"}]
        self.node_status = {"conditions": conditions, "allocatable": {"cpu": "64", "memory": "512Gi"}}
        self.put(
            NODES,
            {"metadata": {"name": "n1", "uid": "n1"}, "status": self.node_status},
        )
        self.put(GPU_NODES, gpu_node(0, 1))
        quota = {"namespaces": ["red"], "quotas": [{"guaranteed": 8}]}
        self.put(
            QUEUES,
            {
                "apiVersion": "cotenant.dev/v1beta1",
                "kind": "Queue",
                "metadata": {"name": "red", "uid": "q"},
                "spec": quota,
            },
        )

    def put(self, resource: Resource, document: dict[str, Any], *, gone: bool = False) -> None:
        document["metadata"]["resourceVersion"] = str(next(self.versions))
        self.operator.cache.put(resource, document, gone)

    def job(self, number: int, **gpu: Any) -> None:
        document = job_document(f"job-{number}", workers=1, gpu=gpu)
        document["metadata"]["uid"] = f"11111111-1111-1111-1111-{number:012d}"
        self.put(TRAINING_JOBS, document)

    def decide(self) -> list[Admit]:
        self.operator.sync(T0)
        plan = schedule(self.operator.snapshot(T0), Policy())
        assert not [action for action in plan.actions if isinstance(action, Evict)], "claims are nobody's to evict"
        self.operator.view.assume(plan, T0)
        return [action for action in plan.actions if isinstance(action, Admit)]

    def held(self) -> dict[str, tuple[int, int]]:
        """GPU → MiB and milli-GPU, of jobs and claims together."""
        amounts = {gpu.uuid: (0, 0) for gpu in NODE.gpus}
        for job in self.operator.snapshot(T0).jobs:
            for node in job.placement.nodes if job.placement else ():
                for grant in (grant for rank in node.ranks for grant in rank.gpus):
                    memory, compute = amounts[grant.uuid]
                    amounts[grant.uuid] = (memory + grant.memory_mib, compute + grant.compute_milli)
        return amounts


def test_a_gpu_that_a_claim_holds_is_not_given_to_a_job_and_comes_back() -> None:
    world = World()
    world.put(RESOURCE_CLAIMS, claim_document("c", ("n1", "gpu-0", 1024, 10)))
    world.job(1, count=2)
    assert world.decide() == []
    world.put(RESOURCE_CLAIMS, claim_document("c", ("n1", "gpu-0", 1024, 10)), gone=True)
    (started,) = world.decide()
    assert started.placement.workers == 1


def test_what_a_claim_left_of_a_gpu_is_shared_as_with_another_queue() -> None:
    """It is shared only if the administrator allows it on the node and the job says `sharing: Any`."""
    world = World()
    world.put(RESOURCE_CLAIMS, claim_document("c", ("n1", "gpu-0", 1024, 10)))
    for number in (1, 2, 3):
        world.job(number, memoryFraction="0.5")
    started = world.decide()
    assert {gpu.uuid for one in started for node in one.placement.nodes for r in node.ranks for gpu in r.gpus} == {
        "GPU-1"
    }
    assert len(started) == 2


def test_a_claim_is_counted_whenever_its_gpu_is_listed() -> None:
    world = World()
    world.put(GPU_NODES, gpu_node())
    world.put(RESOURCE_CLAIMS, claim_document("c", ("n1", "gpu-1", None, None)))
    world.decide()
    world.put(GPU_NODES, gpu_node(0, 1))
    world.job(1, count=1)
    (started,) = world.decide()
    assert started.placement.nodes[0].ranks[0].gpus[0].uuid == "GPU-0"
    assert world.held()["GPU-1"] == (MIB, 1000)


DEVICE = st.tuples(
    st.just("n1"), st.sampled_from(["gpu-0", "gpu-1"]), st.sampled_from([1024, 40_960]), st.sampled_from([1, 500])
)
STEP: st.SearchStrategy[tuple[str, int, Any]] = st.one_of(
    st.tuples(st.just("claim"), st.integers(0, 2), st.lists(DEVICE, max_size=2)),
    st.tuples(st.just("gone"), st.integers(0, 2), st.just([])),
    st.tuples(st.just("job"), st.integers(0, 5), st.just([])),
    st.tuples(st.just("decide"), st.just(0), st.just([])),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=14))
def test_no_order_of_claims_and_jobs_hands_out_more_than_a_gpu_has(steps: list[tuple[str, int, Any]]) -> None:
    """The kube-scheduler, which is played here, allocates what fits beside every claim and every job's pods."""
    world = World()
    for kind, number, devices in steps:
        if kind == "job":
            world.job(number, **({"count": 1} if number % 2 else {"memoryFraction": "0.4"}))
        elif kind == "gone":
            world.put(RESOURCE_CLAIMS, claim_document(f"c{number}"), gone=True)
        elif kind == "claim":
            world.put(RESOURCE_CLAIMS, claim_document(f"c{number}"))
            world.operator.sync(T0)
            held = world.held()
            fits = True
            for _, device, memory, compute in devices:
                before = held[device.replace("gpu", "GPU")]
                after = (before[0] + memory, before[1] + compute)
                held[device.replace("gpu", "GPU")] = after
                fits = fits and after[0] <= MIB and after[1] <= 1000
            if fits:
                world.put(RESOURCE_CLAIMS, claim_document(f"c{number}", *devices))
        else:
            world.decide()
        world.operator.sync(T0)
        assert all(memory <= MIB and compute <= 1000 for memory, compute in world.held().values())


def unbind(pod: dict[str, Any], node: str) -> None:
    """The pod has a place there, but the kube-scheduler has not bound it yet."""
    del pod["spec"]["nodeName"]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod["spec"]["affinity"] = {"nodeAffinity": required}


@pytest.mark.parametrize("bound", [True, False])
def test_a_gang_that_is_not_bound_yet_is_told_of_a_claim_that_was_faster(bound: bool) -> None:
    """A bound pod was given its GPUs by the kube-scheduler, so nobody else holds them."""
    world = World()
    document = gpu_node(0)
    document["status"]["gpus"][0]["uuid"] = "GPU-n1-0"
    world.put(GPU_NODES, document)
    placement = placement_on(("n1", 1)).nodes[0]
    world.put(TRAINING_JOBS, job_document(workers=1, status=admitted(Phase.STARTING, ("n1", 1)).to_document()))
    pod = pod_document(0, placement=placement)
    if not bound:
        unbind(pod, "n1")
    world.put(PODS, pod)
    world.operator.sync(T0)
    world.put(RESOURCE_CLAIMS, claim_document("fast", ("n1", "gpu-n1-0", 60_000, 500)))
    synced = world.operator.sync(T0)
    assert [job.name for job in synced.jobs] == ["train"], "it is looked at again"
    error = world.operator.view.core_jobs.placement_error(world.operator.cache.jobs["red/train"], T0)
    told = "GPU GPU-n1-0 of node n1 has 81920 MiB, and 92768 MiB of it would be held (beside it: guests/fast#claim)"
    assert error == (None if bound else told)


def test_a_gang_may_lie_beside_a_claim_that_shares_its_gpu_by_no_rule_of_queues() -> None:
    world = World()
    document = gpu_node(0)
    document["status"]["gpus"][0]["uuid"] = "GPU-n1-0"
    world.put(GPU_NODES, document)
    world.put(RESOURCE_CLAIMS, claim_document("small", ("n1", "gpu-n1-0", 1024, 10)))
    world.put(TRAINING_JOBS, job_document(workers=1, status=admitted(Phase.STARTING, ("n1", 1)).to_document()))
    world.operator.sync(T0)
    assert world.operator.view.core_jobs.placement_error(world.operator.cache.jobs["red/train"], T0) is None


def test_a_gang_of_which_one_pod_is_not_bound_is_told_of_a_claim_that_was_faster() -> None:
    world = World()
    document = gpu_node(0, 1)
    for number, gpu in enumerate(document["status"]["gpus"]):
        gpu["uuid"] = f"GPU-n1-{number}"
    world.put(GPU_NODES, document)
    bare = {"metadata": {"name": "n2", "uid": "n2"}, "status": world.node_status}
    world.put(NODES, bare)
    other = gpu_node(0)
    other["metadata"] |= {"name": "n2", "uid": "gpu-node-2"}
    other["status"]["gpus"][0]["uuid"] = "GPU-n2-0"
    world.put(GPU_NODES, other)
    placed = placement_on(("n1", 1), ("n2", 1))
    status = admitted(Phase.STARTING, ("n1", 1), ("n2", 1)).to_document()
    world.put(TRAINING_JOBS, job_document(workers=2, status=status))
    for rank, part in enumerate(placed.nodes):
        pod = pod_document(rank, node=part.node, placement=part)
        if rank == 1:
            unbind(pod, part.node)
        world.put(PODS, pod)
    world.put(RESOURCE_CLAIMS, claim_document("fast", ("n1", "gpu-n1-0", 60_000, 500)))
    world.operator.sync(T0)
    error = world.operator.view.core_jobs.placement_error(world.operator.cache.jobs["red/train"], T0)
    assert error is not None
    assert "guests/fast#claim" in error
