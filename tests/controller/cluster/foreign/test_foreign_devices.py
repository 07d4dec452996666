"""Whole devices that pods of others hold are counted before anything is decided, in every order of events."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.controller.client.kube import GPU_NODES, NODES, PODS, QUEUES, TRAINING_JOBS, Resource
from cotenant.controller.cluster.foreign.foreign_devices import devices_holder, is_devices
from cotenant.core.model.objects import Job
from cotenant.core.model.plan import Admit, Evict, Plan
from cotenant.core.policy import Policy
from cotenant.core.scheduling.scheduler import schedule
from tests.controller.builders import T0, job_document, new_cluster
from tests.support.clusters import make_node

AMD = "amd.com/gpu"
DEVICES = 4
NODE = make_node("n1", gpus=DEVICES, resource=AMD, memory_mib=0)


def holding(job: Job | None) -> list[str]:
    return [grant.uuid for grant in job.placement.nodes[0].ranks[0].gpus] if job and job.placement else []


@pytest.mark.parametrize(
    ("ill", "held", "requested", "taken"),
    [
        pytest.param((), (), 0, (), id="nobody has any"),
        pytest.param((), (0,), 2, (2, 3), id="the last ones, of those that are free"),
        pytest.param((), (2, 3), 1, (1,), id="wherever ours are"),
        pytest.param((), (0, 1, 2), 3, (3,), id="more than are left: all that is free"),
        pytest.param((3,), (0,), 1, (2,), id="one that is ill and free is no loss"),
        pytest.param((3,), (3,), 1, (1, 2), id="one that is ill and ours: which of them broke is not known"),
    ],
)
def test_others_hold(ill: tuple[int, ...], held: tuple[int, ...], requested: int, taken: tuple[int, ...]) -> None:
    node = replace(NODE, gpus=tuple(replace(gpu, healthy=gpu.index not in ill) for gpu in NODE.gpus))
    found = devices_holder(node, {AMD: requested, "other/gpu": 9}, {f"GPU-n1-{index}" for index in held})
    assert holding(found) == [f"GPU-n1-{index}" for index in taken]
    assert found is None or (is_devices(found.key) and not found.preemptible)


def test_gpus_of_cuda_are_nobodys_devices() -> None:
    assert devices_holder(make_node("n1"), {AMD: 2, "nvidia.com/gpu": 2}, ()) is None


class World:
    """One node of four devices, its queue, and all writes in their order."""

    def __init__(self) -> None:
        self.operator = new_cluster(clock=lambda: T0)
        self.versions = itertools.count(1)
        conditions = [{"type": "Ready", "status": "True"}]
        allocatable = {"cpu": "64", "memory": "512Gi", AMD: str(DEVICES)}
        self.put(NODES, {"metadata": {"name": "n1", "uid": "n1"},
                         "status": {"conditions": conditions, "allocatable": allocatable}})  # fmt: skip
        self.offer(DEVICES)
        spec = {"namespaces": ["red"], "quotas": [{"guaranteed": 8}]}
        queue = {"apiVersion": "cotenant.dev/v1beta1", "kind": "Queue", "metadata": {"name": "red", "uid": "q"}}
        self.put(QUEUES, queue | {"spec": spec})

    def put(self, resource: Resource, document: dict[str, Any], *, gone: bool = False) -> None:
        document["metadata"]["resourceVersion"] = str(next(self.versions))
        self.operator.cache.put(resource, document, gone)

    def offer(self, number: int) -> None:
        """The node's agent reports `number` healthy devices."""
        gpus = [
            {"uuid": f"AMD-{i}", "index": i, "class": "MI300X", "memoryMiB": 0, "healthy": i < number, "resource": AMD}
            for i in range(DEVICES)
        ]
        status = {"heartbeat": "2026-01-01T00:00:00Z", "isolation": "Cooperative", "gpus": gpus}
        document = {"apiVersion": "cotenant.dev/v1beta1", "kind": "GPUNode", "metadata": {"name": "n1", "uid": "g"}}
        self.put(GPU_NODES, document | {"status": status})

    def guest(self, name: str, devices: int, *, gone: bool = False, phase: str = "Running") -> None:
        container = {"name": "c", "resources": {"requests": {AMD: str(devices)}}}
        metadata = {"name": name, "namespace": "guests", "uid": f"{name}-{devices}"}
        spec = {"nodeName": "n1", "containers": [container]}
        self.put(PODS, {"metadata": metadata, "spec": spec, "status": {"phase": phase}}, gone=gone)

    def job(self, number: int, devices: int, **gpu: Any) -> None:
        document = job_document(f"job-{number}", workers=1, gpu={"count": devices, "classes": ["MI300X"]} | gpu)
        document["metadata"]["uid"] = f"11111111-1111-1111-1111-{number:012d}"
        self.put(TRAINING_JOBS, document)

    def decide(self) -> Plan:
        self.operator.sync(T0)
        plan = schedule(self.operator.snapshot(T0), Policy())
        assert not [action for action in plan.actions if isinstance(action, Evict)], "they are nobody's to evict"
        self.operator.view.assume(plan, T0)
        return plan

    def held(self) -> list[str]:
        """UUIDs of held devices, one entry for each holder."""
        jobs = self.operator.snapshot(T0).jobs
        return [grant.uuid for job in jobs for node in (job.placement.nodes if job.placement else ())
                for rank in node.ranks for grant in rank.gpus]  # fmt: skip

    def ours(self) -> int:
        placements = [job.placement for job in self.operator.snapshot(T0).jobs if not is_devices(job.key)]
        nodes = [node for placement in placements if placement for node in placement.nodes]
        return sum(len(rank.gpus) for node in nodes for rank in node.ranks)


def started(plan: Plan) -> list[str]:
    return [action.job for action in plan.actions if isinstance(action, Admit)]


def test_what_a_pod_of_others_has_requested_is_not_given_to_a_job_and_comes_back() -> None:
    world = World()
    world.guest("notebook", 2)
    world.job(1, 3)
    plan = world.decide()
    assert started(plan) == []
    verdict = plan.verdicts["red/job-1"]
    assert (verdict.reason, "2 of 4 GPUs are free" in verdict.message) == ("WaitingForGPUs", True)
    world.guest("notebook", 2, gone=True)
    assert started(world.decide()) == ["red/job-1"]


def test_a_pod_of_others_that_has_ended_holds_nothing() -> None:
    world = World()
    world.guest("notebook", 4)
    world.operator.sync(T0)
    world.guest("notebook", 4, phase="Succeeded")
    world.job(1, 4)
    assert started(world.decide()) == ["red/job-1"]


def test_a_device_that_is_not_offered_any_more_is_nobodys() -> None:
    world = World()
    world.job(1, 3)
    world.decide()
    world.offer(3)
    world.job(2, 1)
    assert started(world.decide()) == []
    world.offer(4)
    assert started(world.decide()) == ["red/job-2"]


def test_a_node_that_is_gone_leaves_nothing_behind() -> None:
    world = World()
    world.guest("notebook", 2)
    world.operator.sync(T0)
    world.put(GPU_NODES, {"metadata": {"name": "n1", "uid": "g"}}, gone=True)
    world.operator.sync(T0)
    assert not any(is_devices(job.key) for job in world.operator.snapshot(T0).jobs)


STEP = st.one_of(
    st.tuples(st.just("guest"), st.integers(0, 2), st.integers(1, 3)),
    st.tuples(st.just("gone"), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("job"), st.integers(0, 5), st.integers(1, 3)),
    st.tuples(st.just("offer"), st.integers(2, 4), st.just(0)),
    st.tuples(st.just("decide"), st.just(0), st.just(0)),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(STEP, max_size=16))
def test_no_order_of_pods_and_jobs_hands_out_more_than_is_offered(steps: list[tuple[str, int, int]]) -> None:
    """The kube-scheduler, which is played here, binds pods of others where they fit beside every job's."""
    world, offered = World(), DEVICES
    guests: dict[int, tuple[str, int]] = {}
    for step, (kind, number, devices) in enumerate(steps):
        before = world.ours()
        if kind == "job":
            world.job(number, devices)
        elif kind == "offer":
            offered = number
            world.offer(number)
        elif kind in {"guest", "gone"}:
            if number in guests:
                world.guest(*guests.pop(number), gone=True)
            if kind == "guest" and before + sum(held for _, held in guests.values()) + devices <= offered:
                guests[number] = f"guest-{step}", devices
                world.guest(*guests[number])
        else:
            world.decide()
            granted = world.ours() - before
            assert granted <= max(0, offered - before - sum(held for _, held in guests.values()))
        world.operator.sync(T0)
        assert len(set(world.held())) == len(world.held())
