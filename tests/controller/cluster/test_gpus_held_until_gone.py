"""Whatever is done to pods, jobs, agents and operators, in any order: a GPU that a process is on is never handed out.

A world of one node, with the real agent's holders and the real operator's view. Inputs: random orders of what kubelets,
tenants and administrators can do. What it cannot know: a pod that came and went while its agent was away.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant import names
from cotenant.controller.client.kube import GPU_NODES, NODES, PODS, QUEUES, TRAINING_JOBS, Listing, Resource
from cotenant.core.model.lifecycle import Phase
from cotenant_agent.enforcement import gpu_holders
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.reports import node_status
from cotenant_agent.reports.gpunode_client import with_event
from tests.controller.builders import (
    T0,
    UID,
    ObservedCluster,
    admitted,
    job_document,
    new_cluster,
    pod_document,
    terminated,
)

GPUS = 3
EDITS: tuple[dict[str, Any], ...] = (
    {"labels": {}}, {"annotations": {}}, {"ownerReferences": []}, {"finalizers": ["a/b"]}, {"finalizers": []},
    {"labels": {names.LABEL_JOB_UID: "another", names.LABEL_ATTEMPT: "x"}},
    {"deletionTimestamp": "2026-01-01T00:00:00Z"},
)  # fmt: skip


@dataclass
class World:
    """`gpu_of`, `alive`: what really runs. Each object is written with a new version; the watch hands it on later."""

    operator: ObservedCluster = field(init=False)
    now: float = T0
    objects: dict[tuple[Resource, str], dict[str, Any]] = field(default_factory=dict)
    events: list[tuple[Resource, dict[str, Any], bool]] = field(default_factory=list)
    gpu_of: dict[str, int] = field(default_factory=dict)
    alive: set[str] = field(default_factory=set)
    holders: gpu_holders.Holders = field(default_factory=dict)
    published: bool = True
    version: int = 0

    def __post_init__(self) -> None:
        self.start_operator()

    def start_operator(self) -> None:
        self.operator = new_cluster(clock=lambda: self.now)

    def write(self, resource: Resource, name: str, document: dict[str, Any], *, gone: bool = False) -> None:
        self.version += 1
        document = copy.deepcopy(document)
        document["metadata"]["resourceVersion"] = str(self.version)
        self.objects[resource, name] = document
        if gone:
            del self.objects[resource, name]
        self.events.append((resource, document, gone))

    def pod_objects(self) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["uid"]: one for (kind, _), one in self.objects.items() if kind == PODS}

    # Events. Each takes a number that selects its subject.

    def grant(self, choice: int) -> None:
        """The operator commits a job on a GPU that it counts as free, if it has one, and its pod starts."""
        free = [gpu for gpu in range(GPUS) if f"GPU-n1-{gpu}" not in self.held()]
        if not free:
            return
        gpu, name = free[choice % len(free)], f"train{len(self.gpu_of)}"
        uid = f"uid-{name}"
        status = admitted(Phase.RUNNING, ("n1", 1)).to_document()
        status["placement"]["nodes"][0]["ranks"][0]["gpus"][0]["uuid"] = f"GPU-n1-{gpu}"
        document = job_document(name, status=status, workers=1)
        document["metadata"]["uid"] = uid
        self.write(TRAINING_JOBS, name, document)
        text = json.dumps(pod_document(0, uid=f"pod-{name}", status={"phase": "Running"}))
        text = re.sub(r"\btrain\b", name, text.replace(UID, uid)).replace("GPU-n1-0", f"GPU-n1-{gpu}")
        pod = json.loads(text)
        self.write(PODS, pod["metadata"]["name"], pod)
        self.gpu_of[pod["metadata"]["uid"]] = gpu
        self.alive.add(pod["metadata"]["uid"])
        self.deliver(0)
        self.watch()

    def edit(self, choice: int) -> None:
        pods = sorted(self.pod_objects())
        if pods:
            pod = copy.deepcopy(self.pod_objects()[pods[choice % len(pods)]])
            pod["metadata"] |= EDITS[choice % len(EDITS)]
            self.write(PODS, pod["metadata"]["name"], pod)

    def end(self, choice: int) -> None:
        """Every container of a pod ends. Its kubelet reports it if the object exists."""
        running = sorted(self.alive)
        if running:
            uid = running[choice % len(running)]
            self.alive.discard(uid)
            if (pod := self.pod_objects().get(uid)) is not None:
                self.write(PODS, pod["metadata"]["name"], pod | {"status": terminated(0)})

    def delete(self, choice: int) -> None:
        """Delete the object, by force if the pod runs."""
        pods = sorted(self.pod_objects())
        if pods:
            pod = self.pod_objects()[pods[choice % len(pods)]]
            self.write(PODS, pod["metadata"]["name"], pod, gone=True)

    def job_goes(self, choice: int) -> None:
        """A job is deleted without its pods, or waits again because none of its pods has an object."""
        jobs = sorted(name for kind, name in self.objects if kind == TRAINING_JOBS)
        if not jobs:
            return
        name = jobs[choice % len(jobs)]
        document = self.objects[TRAINING_JOBS, name]
        if choice % 2:
            self.write(TRAINING_JOBS, name, document, gone=True)
        elif (PODS, f"{name}-1-0") not in self.objects:
            self.write(TRAINING_JOBS, name, document | {"status": {"phase": "Pending", "attempts": 1}})

    def publish(self, _: int) -> None:
        self.watch()
        entries = [node_status.holder_entry(one) for one in gpu_holders.listed(self.holders)]
        gpus = [{"uuid": f"GPU-n1-{i}", "index": i, "class": "H100", "memoryMiB": 81920} for i in range(GPUS)]
        status = {"heartbeat": node_status.format_time(self.now), "gpus": gpus, "holders": entries}
        head = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": {"name": "n1", "uid": "g"}}
        self.write(GPU_NODES, "n1", head | {"status": status})
        self.published = True

    def agent_restarts(self, _: int) -> None:
        if self.published:
            status = self.objects[GPU_NODES, "n1"]["status"]
            self.holders = {one.grant.pod_uid: one for one in node_status.holders_in(status)}

    def operator_restarts(self, _: int) -> None:
        if self.published:
            self.start_operator()
            self.events = []
            for resource in (QUEUES, NODES, GPU_NODES, TRAINING_JOBS, PODS):
                items = tuple(copy.deepcopy(one) for (kind, _), one in self.objects.items() if kind == resource)
                self.operator.cache.replace(resource, Listing(items, self.version))
            self.operator.view.restore(self.now)

    def deliver(self, _: int) -> None:
        events, self.events = self.events, []
        for resource, document, gone in events:
            self.operator.cache.put(resource, document, gone)

    def wait(self, choice: int) -> None:
        self.now += 1 + choice % 20

    # Observations.

    def watch(self) -> None:
        """The agent looks at the pods and processes of its node."""
        pods = PodsOnNode()
        for pod in self.pod_objects().values():
            pods = with_event(pods, pod, deleted=False)
        before = set(self.holders)
        self.holders = gpu_holders.hold(self.holders, pods, {}, lambda: frozenset(self.alive), self.now)
        self.published &= set(self.holders) <= before

    def held(self) -> set[str]:
        self.operator.sync(self.now)
        jobs = self.operator.snapshot(self.now).jobs
        placements = [one for job in jobs for one in (job.placement, job.resizing_from) if one]
        return {gpu.uuid for one in placements for part in one.nodes for rank in part.ranks for gpu in rank.gpus}


OPERATIONS: tuple[Callable[[World, int], None], ...] = (
    World.grant, World.grant, World.edit, World.end, World.delete, World.delete, World.job_goes, World.publish,
    World.agent_restarts, World.operator_restarts, World.deliver, World.wait,
)  # fmt: skip
STORIES = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 100)), max_size=40)


def new_world() -> World:
    world = World()
    metadata = {"name": "red", "uid": "q"}
    spec = {"namespaces": ["red"], "quotas": [{"guaranteed": 1}]}
    world.write(QUEUES, "red", {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": metadata, "spec": spec})
    ready = {"allocatable": {"cpu": "8", "memory": "16Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}
    world.write(NODES, "n1", {"metadata": {"name": "n1", "uid": "n"}, "status": ready})
    world.publish(0)
    world.deliver(0)
    return world


@settings(deadline=None)
@given(story=STORIES)
def test_a_gpu_that_a_process_is_on_is_never_free_and_one_that_nothing_is_on_becomes_free(
    story: list[tuple[Callable[[World, int], None], int]],
) -> None:
    world = new_world()
    for operation, choice in story:
        operation(world, choice)
        assert {f"GPU-n1-{world.gpu_of[uid]}" for uid in world.alive} <= world.held(), operation.__name__
    # In the end every process ends, jobs go, and agent and operator see it: nothing is held for good.
    while world.alive:
        world.end(0)
    for _ in range(GPUS * 20):
        world.job_goes(1)
        world.delete(0)
    world.publish(0)
    world.deliver(0)
    world.wait(19)
    world.publish(0)
    world.deliver(0)
    assert world.held() == set()
