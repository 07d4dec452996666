"""CRI v1 RuntimeService: translates the kubelet's calls, and errors into the status codes that it expects."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

from cotenant_local.runtime.containers import exec_sessions
from cotenant_local.runtime.containers.containers import StateError
from cotenant_local.runtime.containers.sandboxes import HANDLERS
from cotenant_local.runtime.cri import messages
from cotenant_local.runtime.cri.grpc_errors import answers
from cotenant_local.runtime.cri.node import Node
from cotenant_local.runtime.interface import proto
from cotenant_local.runtime.interface.unsupported import RefusedError
from cotenant_local.runtime.shim import shim_client

log = logging.getLogger(__name__)
NAME, VERSION, API_VERSION = "cotenant", "0.1.0", "v1"


class RuntimeService:
    """One method per call of the interface, named as there."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @answers
    async def Version(self, request: Any) -> Any:  # noqa: N802 (the interface's names, in this class)
        return proto.pb.VersionResponse(
            version="0.1.0", runtime_name=NAME, runtime_version=VERSION, runtime_api_version=API_VERSION
        )

    @answers
    async def Status(self, request: Any) -> Any:  # noqa: N802
        pb = proto.pb
        features = pb.RuntimeHandlerFeatures(recursive_read_only_mounts=True, user_namespaces=False)
        config = {"podCIDR": self.node.config.pod_cidr, "catalogue": str(self.node.config.catalogue)}
        return pb.StatusResponse(
            status=pb.RuntimeStatus(
                conditions=[
                    pb.RuntimeCondition(type="RuntimeReady", status=True),
                    pb.RuntimeCondition(type="NetworkReady", status=True),
                ]
            ),
            runtime_handlers=[pb.RuntimeHandler(name=name, features=features) for name in HANDLERS],
            features=pb.RuntimeFeatures(supplemental_groups_policy=True),
            info={"config": json.dumps(config)} if request.verbose else {},
        )

    @answers
    async def RunPodSandbox(self, request: Any) -> Any:  # noqa: N802
        sandbox = await self.node.run_sandbox(request.config, request.runtime_handler)
        return proto.pb.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    @answers
    async def StopPodSandbox(self, request: Any) -> Any:  # noqa: N802
        if sandbox := self.node.sandboxes.find(request.pod_sandbox_id):
            await self.node.stop_sandbox(sandbox)
        return proto.pb.StopPodSandboxResponse()

    @answers
    async def RemovePodSandbox(self, request: Any) -> Any:  # noqa: N802
        if sandbox := self.node.sandboxes.find(request.pod_sandbox_id):
            await self.node.remove_sandbox(sandbox)
        return proto.pb.RemovePodSandboxResponse()

    @answers
    async def PodSandboxStatus(self, request: Any) -> Any:  # noqa: N802
        sandbox = self.node.sandbox(request.pod_sandbox_id)
        info = {"info": json.dumps({"pid": sandbox.pid})} if request.verbose else {}
        return proto.pb.PodSandboxStatusResponse(status=messages.sandbox_status(sandbox), info=info)

    @answers
    async def ListPodSandbox(self, request: Any) -> Any:  # noqa: N802
        return proto.pb.ListPodSandboxResponse(items=self._sandboxes(request))

    async def StreamPodSandboxes(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        for item in self._sandboxes(request):
            yield proto.pb.StreamPodSandboxesResponse(pod_sandboxes=[item])

    def _sandboxes(self, request: Any) -> list[Any]:
        chosen = messages.chosen_sandboxes(self.node.sandboxes.all.values(), request.filter)
        return [messages.sandbox_summary(sandbox) for sandbox in chosen]

    @answers
    async def CreateContainer(self, request: Any) -> Any:  # noqa: N802
        sandbox = self.node.sandbox(request.pod_sandbox_id)
        container = self.node.create(request.config, sandbox)
        return proto.pb.CreateContainerResponse(container_id=container.id)

    @answers
    async def StartContainer(self, request: Any) -> Any:  # noqa: N802
        await self.node.containers.start(self.node.container(request.container_id))
        return proto.pb.StartContainerResponse()

    @answers
    async def StopContainer(self, request: Any) -> Any:  # noqa: N802
        if container := self.node.containers.find(request.container_id):
            await self.node.containers.stop(container, request.timeout)
        return proto.pb.StopContainerResponse()

    @answers
    async def RemoveContainer(self, request: Any) -> Any:  # noqa: N802
        if container := self.node.containers.find(request.container_id):
            await self.node.containers.remove(container)
        return proto.pb.RemoveContainerResponse()

    @answers
    async def ListContainers(self, request: Any) -> Any:  # noqa: N802
        return proto.pb.ListContainersResponse(containers=self._containers(request))

    async def StreamContainers(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        for item in self._containers(request):
            yield proto.pb.StreamContainersResponse(containers=[item])

    def _containers(self, request: Any) -> list[Any]:
        chosen = messages.chosen_containers(self.node.containers.all.values(), request.filter)
        return [messages.container_summary(container) for container in chosen]

    @answers
    async def ContainerStatus(self, request: Any) -> Any:  # noqa: N802
        container = self.node.container(request.container_id)
        info = {"info": json.dumps({"notes": container.notes})} if request.verbose else {}
        return proto.pb.ContainerStatusResponse(status=messages.container_status(container), info=info)

    @answers
    async def ReopenContainerLog(self, request: Any) -> Any:  # noqa: N802
        await shim_client.ask(self.node.container(request.container_id).folder, op="reopen")
        return proto.pb.ReopenContainerLogResponse()

    @answers
    async def ExecSync(self, request: Any) -> Any:  # noqa: N802
        container = self.node.container(request.container_id)
        command, launcher = list(request.cmd), self.node.launcher
        out, err, code = await exec_sessions.run(launcher, container, command, timeout=request.timeout)
        return proto.pb.ExecSyncResponse(stdout=out, stderr=err, exit_code=code)

    @answers
    async def Exec(self, request: Any) -> Any:  # noqa: N802
        return proto.pb.ExecResponse(url=self._address("exec", request))

    @answers
    async def Attach(self, request: Any) -> Any:  # noqa: N802
        return proto.pb.AttachResponse(url=self._address("attach", request))

    def _address(self, kind: str, request: Any) -> str:
        if request.tty and request.stderr:
            raise RefusedError("a terminal has one output: tty and stderr cannot both be asked for")
        if not (request.stdin or request.stdout or request.stderr):
            raise RefusedError("one of stdin, stdout, stderr must be asked for")
        container = self.node.container(request.container_id)
        if not container.running:
            raise StateError(f"container {container.config.metadata.name} ({container.id}) is not running")
        return self.node.streams.address(kind, container, request)

    @answers
    async def PortForward(self, request: Any) -> Any:  # noqa: N802
        sandbox = self.node.sandbox(request.pod_sandbox_id)
        if not sandbox.ready:
            raise StateError(f"pod sandbox {sandbox.id} is not running")
        return proto.pb.PortForwardResponse(url=self.node.streams.address("portforward", sandbox, request))

    @answers
    async def UpdateContainerResources(self, request: Any) -> Any:  # noqa: N802
        self.node.containers.update(self.node.container(request.container_id), request.linux)
        return proto.pb.UpdateContainerResourcesResponse()

    @answers
    async def UpdatePodSandboxResources(self, request: Any) -> Any:  # noqa: N802
        """Pods have no limits of their own here: their containers' hold."""
        self.node.sandbox(request.pod_sandbox_id)
        return proto.pb.UpdatePodSandboxResourcesResponse()

    @answers
    async def UpdateRuntimeConfig(self, request: Any) -> Any:  # noqa: N802
        asked = request.runtime_config.network_config.pod_cidr
        if asked and asked != self.node.config.pod_cidr:
            log.warning("the kubelet asks for pod range %s; this node keeps %s", asked, self.node.config.pod_cidr)
        return proto.pb.UpdateRuntimeConfigResponse()

    @answers
    async def RuntimeConfig(self, request: Any) -> Any:  # noqa: N802
        pb = proto.pb
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CGROUPFS))

    async def GetContainerEvents(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        queue: asyncio.Queue[Any] = asyncio.Queue()
        self.node.containers.changed.append(queue)
        try:
            while True:
                kind, container = await queue.get()
                sandbox = self.node.sandboxes.find(container.sandbox_id)
                others = self.node.containers.of(sandbox) if sandbox else []
                yield proto.pb.ContainerEventResponse(
                    container_id=container.id,
                    container_event_type=kind,
                    created_at=container.created_at,
                    pod_sandbox_status=messages.sandbox_status(sandbox) if sandbox else None,
                    containers_statuses=[messages.container_status(other) for other in others],
                )
        finally:
            self.node.containers.changed.remove(queue)

    @answers
    async def CheckpointContainer(self, request: Any) -> Any:  # noqa: N802
        raise NotImplementedError("checkpoints of containers are not provided by this runtime")
