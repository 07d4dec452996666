"""What Kubernetes itself does in a simulated world (the garbage collector), and how the programs of a gang find each
other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from cotenant import names
from cotenant.contract import Contract
from cotenant.controller.client.kube import NODES, PODS, SESSIONS, SWEEPS, TRAINING_JOBS, Document, Reply
from tests.support.fake_kube import FakeKube
from tests.support.simulation.api_server import ApiServer
from tests.support.simulation.machine import Machine, ready_condition
from tests.support.simulation.running_pod import Program, RunningPod

PEER_LOST_S: Final = 5.0
MONITOR_GRACE_S: Final = 40.0
TOLERATED_S: Final = 300.0
"""Time for which pods tolerate a node that cannot be reached."""
NEVER: Final = float("inf")


async def collect_garbage(server: ApiServer) -> None:
    """Delete what is left of jobs, sweeps and sessions that are gone."""
    while True:
        await asyncio.sleep(2.0)
        kinds = (TRAINING_JOBS, SWEEPS, SESSIONS)
        there = {one["metadata"]["uid"] for kind in kinds for one in server.objects[kind].values()}
        for resource, objects in list(server.objects.items()):
            for key, document in list(objects.items()):
                owners = document["metadata"].get("ownerReferences")
                if not owners or any(owner["uid"] in there for owner in owners):
                    continue
                if resource != PODS:
                    server.remove("garbage collector", resource, key)
                elif "deletionTimestamp" not in document["metadata"]:
                    server.perform("garbage collector", partial(_delete_pod, key=key))


async def watch_nodes(server: ApiServer, machines: Iterable[Machine], now: Callable[[], float]) -> None:
    """Note the machines that cannot be reached, and ask their pods to end where that lasts."""
    while True:
        await asyncio.sleep(5.0)
        for machine in machines:
            node = server.objects[NODES].get(machine.name)
            if node is None:
                continue
            away_s = 0.0 if machine.cut_off_at is None else now() - machine.cut_off_at
            state = "Unknown" if away_s > MONITOR_GRACE_S else "True"
            if node["status"]["conditions"][0]["status"] != state:
                body = {"status": {"conditions": [ready_condition(state)]}}
                server.perform("node controller", partial(_patch_status, name=machine.name, body=body))
            if away_s > MONITOR_GRACE_S + TOLERATED_S:
                for key, pod in list(server.objects[PODS].items()):
                    if pod["spec"].get("nodeName") == machine.name and "deletionTimestamp" not in pod["metadata"]:
                        server.perform("taint manager", partial(_delete_pod, key=key))


async def _patch_status(kube: FakeKube, name: str, body: Document) -> Reply:
    return await kube.patch(NODES, name, body, subresource="status")


async def _delete_pod(kube: FakeKube, key: str) -> Reply:
    namespace, name = key.split("/")
    return await kube.delete(PODS, name, namespace)


async def run_programs(machines: Iterable[Machine], program_of: Callable[[Contract], Program]) -> None:
    """A gang trains once all its ranks run. If one leaves, the others fail because they lost a peer."""
    while True:
        await asyncio.sleep(0.5)
        gangs: dict[tuple[str, int], list[RunningPod]] = {}
        for machine in machines:
            for pod in machine.pods.values():
                gangs.setdefault(pod.attempt, []).append(pod)
        for pods in gangs.values():
            _advance(pods, program_of(pods[0].grant), time.time())


def _advance(pods: list[RunningPod], program: Program, now: float) -> None:
    trains = any(pod.trains for pod in pods)
    if not trains and len(pods) == len(pods[0].grant.pods):
        for pod in pods:
            pod.trains = True
            if not pod.asked_to_end:
                pod.ends_at, pod.code = now + program.runs_s, program.code
    elif trains and len(pods) < len(pods[0].grant.pods):
        for pod in pods:
            if not pod.asked_to_end and pod.ends_at > now + PEER_LOST_S:
                pod.ends_at, pod.code = now + PEER_LOST_S, names.EXIT_PEER_LOST
