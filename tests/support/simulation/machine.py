"""One GPU node: its kubelet, its agent, and the processes that really run on its GPUs, whatever the API server shows.

The kubelet starts and ends pods in its own time. Cut off from the API server it goes on with what it has; without
power nothing of it goes on. A program may ignore that it has to end, for its whole grace period or for ever (a process
that waits for its GPU in the kernel).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from cotenant import contract, names
from cotenant.controller.client.kube import GPU_NODES, NODES, PODS, Document
from cotenant_agent.enforcement import gpu_holders
from cotenant_agent.enforcement.quota import PodGpu, PodQuota
from cotenant_agent.reports.node_status import holder_entry, holders_in
from tests.support.simulation.api_server import ApiServer
from tests.support.simulation.running_pod import Program, RunningPod

GPU_MIB: Final = 81_920


@dataclass(slots=True, kw_only=True)
class Machine:
    name: str
    gpus: int
    server: ApiServer
    dice: Random
    tell: Callable[[str], None]
    program_of: Callable[[contract.Contract], Program]
    on_start: Callable[[Machine, RunningPod], None]
    """Called when processes of a pod have started."""
    pods: dict[str, RunningPod] = field(default_factory=dict)
    """Uid → what runs."""
    ended: dict[str, RunningPod] = field(default_factory=dict)
    """Uid → what has ended and is still to be reported."""
    seen: set[str] = field(default_factory=set)
    """Uids of pods that were started."""
    cut_off_at: float | None = None
    """Since when it cannot be reached."""
    agent_away: bool = False
    _held: gpu_holders.Holders = field(default_factory=dict)
    _published: dict[str, Any] = field(default_factory=dict)
    _heartbeat_at: float = -1000.0
    _quotas: dict[str, PodQuota | None] = field(default_factory=dict)

    def uuids(self) -> list[str]:
        return [f"GPU-{self.name}-{index}" for index in range(self.gpus)]

    def register(self) -> None:
        status = {"allocatable": {"cpu": "64", "memory": "512Gi"}, "conditions": [ready_condition("True")]}
        document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name}, "spec": {}, "status": status}
        self.server.put(self.name, NODES, document)
        body = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": {"name": self.name}}
        self.server.put(self.name, GPU_NODES, body)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.dice.uniform(0.3, 1.5))
            self._advance()
            if self.cut_off_at is None:
                self._sync_pods()
                if not self.agent_away:
                    self._report_gpus()

    def cut_off(self, now: float) -> None:
        self.cut_off_at = now
        for pod in self.pods.values():
            pod.was_cut_off = True

    def lose_power(self) -> None:
        """Everything that runs ends, and the kubelet finds it so when it is back."""
        self.tell(f"{self.name} is started anew, and with it ends {', '.join(p.key for p in self.pods.values())}")
        for pod in self.pods.values():
            pod.code = 137
            self.ended[pod.uid] = pod
        self.pods.clear()

    def restart_agent(self) -> None:
        """Restart the agent, which continues from what it published."""
        self.agent_away = False
        self._held = {one.grant.pod_uid: one for one in holders_in(self._published)}

    def _advance(self) -> None:
        """End processes whose time is over."""
        for uid, pod in list(self.pods.items()):
            if time.time() >= pod.ends_at:
                del self.pods[uid]
                self.ended[uid] = pod
                self.tell(f"{self.name}: processes of {pod.key} end with {pod.code}")

    def _sync_pods(self) -> None:
        bound = {}
        for key, document in list(self.server.objects[PODS].items()):
            if document["spec"].get("nodeName") == self.name:
                bound[document["metadata"]["uid"]] = document
            elif "nodeName" not in document["spec"] and wanted_node(document) == self.name and self._takes(document):
                self._bind(key, document)
        for uid, document in bound.items():
            self._sync_pod(uid, document)
        for uid in self.pods.keys() - bound.keys():
            self._ask_to_end(self.pods[uid])  # deleted by force
        for uid in self.ended.keys() - bound.keys():
            del self.ended[uid]

    def _takes(self, document: Document) -> bool:
        node = self.server.objects[NODES].get(self.name)
        ready = node is not None and node["status"]["conditions"][0]["status"] == "True"
        cordoned = node is not None and node["spec"].get("unschedulable", False)
        return ready and not cordoned and "deletionTimestamp" not in document["metadata"]

    def _bind(self, key: str, document: Document) -> None:
        namespace, name = key.split("/")
        body = {"metadata": {"uid": document["metadata"]["uid"]}, "spec": {"nodeName": self.name}}
        self.server.perform("kube-scheduler", lambda kube: kube.patch(PODS, name, body, namespace=namespace))

    def _sync_pod(self, uid: str, document: Document) -> None:
        metadata, phase = document["metadata"], document["status"].get("phase")
        key = f"{metadata['namespace']}/{metadata['name']}"
        if uid in self.ended:
            if phase not in {"Succeeded", "Failed"}:
                self._write_status(document, ended_status(self.ended[uid]))
            if "deletionTimestamp" not in metadata:
                return
        elif uid in self.pods:
            if "deletionTimestamp" in metadata:
                self._ask_to_end(self.pods[uid], metadata.get("deletionGracePeriodSeconds"))
            elif phase == "Pending":
                self._write_status(document, running_status())
            return
        elif "deletionTimestamp" not in metadata:
            if phase == "Pending" and uid not in self.seen and self.dice.random() < 0.6:
                self._start(uid, key, document)
            return
        self.server.remove(self.name, PODS, key)
        self.ended.pop(uid, None)

    def _start(self, uid: str, key: str, document: Document) -> None:
        grant = contract_of(document)
        if grant is None:
            return
        self.seen.add(uid)
        grace_s = float(document["spec"].get("terminationGracePeriodSeconds", 30))
        pod = self.pods[uid] = RunningPod(uid=uid, key=key, grant=grant, grace_s=grace_s)
        self.tell(f"{self.name}: processes of {key} start on {', '.join(sorted(pod.shares()))}")
        self.on_start(self, pod)

    def _ask_to_end(self, pod: RunningPod, grace_s: float | None = None) -> None:
        if pod.asked_to_end:
            return
        pod.asked_to_end = True
        program, grace = self.program_of(pod.grant), pod.grace_s if grace_s is None else grace_s
        pod.code = names.EXIT_PREEMPTED if program.ends_after_s <= grace else 137
        pod.ends_at = float("inf") if program.hangs else time.time() + min(program.ends_after_s, grace)
        if program.hangs:
            self.tell(f"{self.name}: {pod.key} cannot be killed")

    def _write_status(self, document: Document, status: Mapping[str, Any]) -> None:
        metadata = document["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        self.server.perform(
            self.name,
            lambda kube: kube.patch(
                PODS, metadata["name"], body, namespace=metadata["namespace"], subresource="status"
            ),
        )

    def _quota_of(self, document: Document) -> PodQuota | None:
        uid = document["metadata"]["uid"]
        if uid not in self._quotas:
            self._quotas[uid] = quota_of(document)
        return self._quotas[uid]

    def _report_gpus(self) -> None:
        """Report like the agent: a heartbeat now and then, a change of holders at once."""
        now = time.time()
        mine = [one for one in self.server.objects[PODS].values() if one["spec"].get("nodeName") == self.name]
        over = [one for one in mine if one["status"].get("phase") in {"Succeeded", "Failed"}]
        grants = {one["metadata"]["uid"]: self._quota_of(one) for one in mine if one not in over}
        pods = gpu_holders.PodsOnNode(
            grants={uid: grant for uid, grant in grants.items() if grant is not None},
            ended=frozenset(one["metadata"]["uid"] for one in over),
        )
        usage = {
            PodGpu(pod.uid, uuid): memory for pod in self.pods.values() for uuid, (memory, _) in pod.shares().items()
        }
        self._held = gpu_holders.hold(self._held, pods, usage, lambda: frozenset(self.pods), now)
        holders = [holder_entry(one) for one in gpu_holders.listed(self._held)]
        if holders == self._published.get("holders") and now - self._heartbeat_at < names.HEARTBEAT_S:
            return
        self._heartbeat_at = now
        gpus = [
            {"uuid": uuid, "index": index, "class": "H100", "memoryMiB": GPU_MIB, "healthy": True}
            for index, uuid in enumerate(self.uuids())
        ]
        self._published = {"heartbeat": stamp(), "simulated": True, "gpus": gpus, "holders": holders}
        body = {"status": self._published}
        self.server.perform(self.name, lambda kube: kube.patch(GPU_NODES, self.name, body, subresource="status"))


def stamp(at: float | None = None) -> str:
    return datetime.fromtimestamp(time.time() if at is None else at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ready_condition(state: str) -> Document:
    return {"type": "Ready", "status": state, "lastTransitionTime": stamp()}


def contract_of(document: Document) -> contract.Contract | None:
    """The contract that its launcher would use; None for a pod of others."""
    for container in document["spec"].get("containers") or ():
        if container.get("name") == names.CONTAINER:
            variables = {one["name"]: one.get("value", "") for one in container.get("env") or ()}
            try:
                return contract.Contract.from_environment(variables)
            except contract.ContractError:
                return None
    return None


def quota_of(document: Document) -> PodQuota | None:
    grant, metadata = contract_of(document), document["metadata"]
    if grant is None:
        return None
    shares = RunningPod(uid="", key="", grant=grant, grace_s=0.0).shares()
    return PodQuota(
        pod_uid=metadata["uid"], namespace=metadata["namespace"], pod=metadata["name"],
        quota_mib={uuid: memory for uuid, (memory, _) in shares.items()},
        compute_milli={uuid: milli for uuid, (_, milli) in shares.items()},
        job=grant.job, job_uid=grant.uid, attempt=grant.attempt, node_rank=grant.node_rank,
        grace_s=int(document["spec"].get("terminationGracePeriodSeconds", 30)),
    )  # fmt: skip


def wanted_node(document: Document) -> str:
    affinity = document["spec"].get("affinity")
    if not affinity:
        return ""
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(terms[0]["matchFields"][0]["values"][0])


def running_status() -> Document:
    state = {"name": names.CONTAINER, "ready": True, "state": {"running": {"startedAt": stamp()}}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp()}
    return {"phase": "Running", "podIP": "10.0.0.1", "conditions": [ready], "containerStatuses": [state]}


def ended_status(pod: RunningPod) -> Document:
    reason = {0: "Completed", names.EXIT_PREEMPTED: "Preempted", names.EXIT_PEER_LOST: "PeerLost"}
    said = contract.Termination(
        pod.grant.node_rank, pod.grant.attempt, pod.code, reason.get(pod.code, "UserError"),
        results={"loss": 0.5} if pod.code == 0 and pod.grant.node_rank == 0 else {},
    )  # fmt: skip
    terminated = {"exitCode": pod.code, "reason": "Ended", "finishedAt": stamp(), "startedAt": stamp()}
    if pod.code != 137:
        terminated["message"] = said.to_json()
    return {
        "phase": "Failed" if pod.code else "Succeeded",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": stamp()}],
        "containerStatuses": [{"name": names.CONTAINER, "ready": False, "state": {"terminated": terminated}}],
    }
