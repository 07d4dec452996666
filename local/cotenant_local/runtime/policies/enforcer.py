"""Keeps the node's table in step with the cluster: on every change, and before a new pod's first container.

Rules are written only when they differ from the last ones. While the API server cannot be reached, the last rules hold;
and a pod does not start before the policies are known, because it is not known whether it is isolated.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from cotenant_local.host.api_client import Api
from cotenant_local.host.informer import Informer
from cotenant_local.runtime.containers.sandboxes import Sandbox
from cotenant_local.runtime.isolation.pod_network import PodNetworkError, run_script
from cotenant_local.runtime.policies import rules
from cotenant_local.runtime.policies.model import NetworkPolicy, PolicyPod

log = logging.getLogger(__name__)
BATCH_WINDOW_S: Final = 0.05
FIRST_LIST_DEADLINE_S: Final = 10.0
RETRY_PAUSE_S: Final = 1.0
DNS_LABELS = {"k8s-app": "kube-dns"}


class PolicyEnforcer:
    """The enforcer of one node. `dns` is the name server's address: no pod here, but policies name it as one."""

    def __init__(self, kubeconfig: Path, dns: str, sandboxes: Callable[[], Iterable[Sandbox]]) -> None:
        api = Api.from_kubeconfig(kubeconfig)
        self.loop = asyncio.get_running_loop()
        self.sandboxes = sandboxes
        self.dns = PolicyPod(
            "kube-system", "kube-dns", "", dns, DNS_LABELS, {("dns", "UDP"): 53, ("dns-tcp", "TCP"): 53}
        )
        self.wake = asyncio.Event()
        self.policies = Informer(api, "/apis/networking.k8s.io/v1/networkpolicies", self._changed)
        self.namespaces = Informer(api, "/api/v1/namespaces", self._changed)
        self.pods = Informer(api, "/api/v1/pods", self._changed)
        self.written = ""
        self.lock = asyncio.Lock()
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        for informer in self._informers:
            informer.start()
        self.task = asyncio.create_task(self._run())

    @property
    def _informers(self) -> tuple[Informer, Informer, Informer]:
        return self.policies, self.namespaces, self.pods

    def _changed(self) -> None:
        self.loop.call_soon_threadsafe(self.wake.set)

    async def _run(self) -> None:
        while True:
            await self.wake.wait()
            await asyncio.sleep(BATCH_WINDOW_S)  # changes come in groups
            self.wake.clear()
            try:
                await self.sync()
            except PodNetworkError as error:
                log.error("network policies have changed, the ones before are in force: %s", error)
                await asyncio.sleep(RETRY_PAUSE_S)
                self.wake.set()

    async def admit(self, sandbox: Sandbox) -> None:
        """Returns when the rules for a new pod are in force; raises PodNetworkError when they are not known in time.

        The kubelet tries again later, as it does with every pod that has no network yet.
        """
        if sandbox.host_network:
            return
        deadline = self.loop.time() + FIRST_LIST_DEADLINE_S
        while not all(informer.synced.is_set() for informer in self._informers):
            if self.loop.time() > deadline:
                missing = ", ".join(informer.path for informer in self._informers if not informer.synced.is_set())
                raise PodNetworkError(
                    f"pod {sandbox.config.metadata.name} waits for its network policies: in "
                    f"{FIRST_LIST_DEADLINE_S:.0f} s the API server has not told {missing}"
                )
            await asyncio.sleep(BATCH_WINDOW_S)
        await self.sync()

    async def sync(self) -> None:
        if not all(informer.synced.is_set() for informer in self._informers):
            return
        async with self.lock:
            wanted = self._wanted()
            if wanted != self.written:
                await run_script(["nft", "-f", "-"], wanted)
                self.written = wanted

    def _wanted(self) -> str:
        policies = [NetworkPolicy.parse(document) for document in self.policies.objects.values()]
        namespaces = {
            document["metadata"]["name"]: document["metadata"].get("labels") or {}
            for document in self.namespaces.objects.values()
        }
        known = {uid: pod for uid, document in self.pods.objects.items() if (pod := PolicyPod.parse(document))}
        local = {}
        for sandbox in self.sandboxes():
            if sandbox.ready and sandbox.address:
                uid = sandbox.config.metadata.uid
                local[uid] = _local(sandbox, known.get(uid))
        everyone = {**known, **local}
        return rules.ruleset(policies, namespaces, [*everyone.values(), self.dns], local.values())


def _local(sandbox: Sandbox, known: PolicyPod | None) -> PolicyPod:
    """The address is the runtime's to know; labels and ports may be newer in the API than in the sandbox."""
    if known is not None:
        return replace(known, address=sandbox.address)
    config = sandbox.config
    return PolicyPod(
        config.metadata.namespace, config.metadata.name, config.metadata.uid, sandbox.address, dict(config.labels)
    )
