"""CRI v1 RuntimeService: translates the kubelet's calls, and errors into the status codes that it expects."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

from cotenant_local.runtime.containers import exec_sessions
from cotenant_local.runtime.containers.container import StateError
from cotenant_local.runtime.containers.sandboxes import HANDLERS
from cotenant_local.runtime.cri import messages
from cotenant_local.runtime.cri.grpc_errors import with_status_codes
from cotenant_local.runtime.cri.node_runtime import NodeRuntime
from cotenant_local.runtime.interface import proto
from cotenant_local.runtime.interface.unsupported import UnsupportedError
from cotenant_local.runtime.shim import shim_client

log = logging.getLogger(__name__)
NAME, VERSION, API_VERSION = "cotenant", "0.1.0", "v1"


class RuntimeService:
    """One method per call of the interface, named as there."""

    def __init__(self, runtime: NodeRuntime) -> None:
        self.runtime = runtime

    @with_status_codes
    async def Version(self, request: Any) -> Any:  # noqa: N802 (the interface's names, in this class)
        return proto.pb.VersionResponse(
            version=VERSION, runtime_name=NAME, runtime_version=VERSION, runtime_api_version=API_VERSION
        )

    @with_status_codes
    async def Status(self, request: Any) -> Any:  # noqa: N802
        pb = proto.pb
        features = pb.RuntimeHandlerFeatures(recursive_read_only_mounts=True, user_namespaces=False)
        config = {"podCIDR": self.runtime.config.pod_cidr, "catalogue": str(self.runtime.config.catalogue)}
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

    @with_status_codes
    async def RunPodSandbox(self, request: Any) -> Any:  # noqa: N802
        sandbox = await self.runtime.run_sandbox(request.config, request.runtime_handler)
        return proto.pb.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    @with_status_codes
    async def StopPodSandbox(self, request: Any) -> Any:  # noqa: N802
        if sandbox := self.runtime.sandboxes.find(request.pod_sandbox_id):
            await self.runtime.stop_sandbox(sandbox)
        return proto.pb.StopPodSandboxResponse()

    @with_status_codes
    async def RemovePodSandbox(self, request: Any) -> Any:  # noqa: N802
        if sandbox := self.runtime.sandboxes.find(request.pod_sandbox_id):
            await self.runtime.remove_sandbox(sandbox)
        return proto.pb.RemovePodSandboxResponse()

    @with_status_codes
    async def PodSandboxStatus(self, request: Any) -> Any:  # noqa: N802
        sandbox = self.runtime.sandbox(request.pod_sandbox_id)
        info = {"info": json.dumps({"pid": sandbox.pid})} if request.verbose else {}
        return proto.pb.PodSandboxStatusResponse(status=messages.sandbox_status(sandbox), info=info)

    @with_status_codes
    async def ListPodSandbox(self, request: Any) -> Any:  # noqa: N802
        return proto.pb.ListPodSandboxResponse(items=self._sandboxes(request))

    async def StreamPodSandboxes(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        for item in self._sandboxes(request):
            yield proto.pb.StreamPodSandboxesResponse(pod_sandboxes=[item])

    def _sandboxes(self, request: Any) -> list[Any]:
        chosen = messages.chosen_sandboxes(self.runtime.sandboxes.all.values(), request.filter)
        return [messages.sandbox_summary(sandbox) for sandbox in chosen]

    @with_status_codes
    async def CreateContainer(self, request: Any) -> Any:  # noqa: N802
        sandbox = self.runtime.sandbox(request.pod_sandbox_id)
        container = self.runtime.create(request.config, sandbox)
        return proto.pb.CreateContainerResponse(container_id=container.id)

    @with_status_codes
    async def StartContainer(self, request: Any) -> Any:  # noqa: N802
        await self.runtime.containers.start(self.runtime.container(request.container_id))
        return proto.pb.StartContainerResponse()

    @with_status_codes
    async def StopContainer(self, request: Any) -> Any:  # noqa: N802
        if container := self.runtime.containers.find(request.container_id):
            await self.runtime.containers.stop(container, request.timeout)
        return proto.pb.StopContainerResponse()

    @with_status_codes
    async def RemoveContainer(self, request: Any) -> Any:  # noqa: N802
        if container := self.runtime.containers.find(request.container_id):
            await self.runtime.containers.remove(container)
        return proto.pb.RemoveContainerResponse()

    @with_status_codes
    async def ListContainers(self, request: Any) -> Any:  # noqa: N802
        return proto.pb.ListContainersResponse(containers=self._containers(request))

    async def StreamContainers(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        for item in self._containers(request):
            yield proto.pb.StreamContainersResponse(containers=[item])

    def _containers(self, request: Any) -> list[Any]:
        chosen = messages.chosen_containers(self.runtime.containers.all.values(), request.filter)
        return [messages.container_summary(container) for container in chosen]

    @with_status_codes
    async def ContainerStatus(self, request: Any) -> Any:  # noqa: N802
        container = self.runtime.container(request.container_id)
        info = {"info": json.dumps({"notes": container.notes})} if request.verbose else {}
        return proto.pb.ContainerStatusResponse(status=messages.container_status(container), info=info)

    @with_status_codes
    async def ReopenContainerLog(self, request: Any) -> Any:  # noqa: N802
        await shim_client.request(self.runtime.container(request.container_id).folder, op="reopen")
        return proto.pb.ReopenContainerLogResponse()

    @with_status_codes
    async def ExecSync(self, request: Any) -> Any:  # noqa: N802
        container = self.runtime.container(request.container_id)
        command, zygote = list(request.cmd), self.runtime.zygote
        out, err, code = await exec_sessions.run(zygote, container, command, timeout=request.timeout)
        return proto.pb.ExecSyncResponse(stdout=out, stderr=err, exit_code=code)

    @with_status_codes
    async def Exec(self, request: Any) -> Any:  # noqa: N802
        return proto.pb.ExecResponse(url=self._address("exec", request))

    @with_status_codes
    async def Attach(self, request: Any) -> Any:  # noqa: N802
        return proto.pb.AttachResponse(url=self._address("attach", request))

    def _address(self, kind: str, request: Any) -> str:
        if request.tty and request.stderr:
            raise UnsupportedError("a terminal has one output: tty and stderr cannot both be asked for")
        if not (request.stdin or request.stdout or request.stderr):
            raise UnsupportedError("one of stdin, stdout, stderr must be asked for")
        container = self.runtime.container(request.container_id)
        if not container.running:
            raise StateError(f"container {container.config.metadata.name} ({container.id}) is not running")
        return self.runtime.streams.address(kind, container, request)

    @with_status_codes
    async def PortForward(self, request: Any) -> Any:  # noqa: N802
        sandbox = self.runtime.sandbox(request.pod_sandbox_id)
        if not sandbox.ready:
            raise StateError(f"pod sandbox {sandbox.id} is not running")
        return proto.pb.PortForwardResponse(url=self.runtime.streams.address("portforward", sandbox, request))

    @with_status_codes
    async def UpdateContainerResources(self, request: Any) -> Any:  # noqa: N802
        self.runtime.containers.update(self.runtime.container(request.container_id), request.linux)
        return proto.pb.UpdateContainerResourcesResponse()

    @with_status_codes
    async def UpdatePodSandboxResources(self, request: Any) -> Any:  # noqa: N802
        """Pods have no limits of their own here: their containers' hold."""
        self.runtime.sandbox(request.pod_sandbox_id)
        return proto.pb.UpdatePodSandboxResourcesResponse()

    @with_status_codes
    async def UpdateRuntimeConfig(self, request: Any) -> Any:  # noqa: N802
        asked = request.runtime_config.network_config.pod_cidr
        if asked and asked != self.runtime.config.pod_cidr:
            log.warning("the kubelet asks for pod range %s; this node keeps %s", asked, self.runtime.config.pod_cidr)
        return proto.pb.UpdateRuntimeConfigResponse()

    @with_status_codes
    async def RuntimeConfig(self, request: Any) -> Any:  # noqa: N802
        pb = proto.pb
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CGROUPFS))

    async def GetContainerEvents(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        queue: asyncio.Queue[Any] = asyncio.Queue()
        self.runtime.containers.subscribers.append(queue)
        try:
            while True:
                kind, container = await queue.get()
                sandbox = self.runtime.sandboxes.find(container.sandbox_id)
                others = self.runtime.containers.of(sandbox) if sandbox else []
                yield proto.pb.ContainerEventResponse(
                    container_id=container.id,
                    container_event_type=kind,
                    created_at=container.created_at,
                    pod_sandbox_status=messages.sandbox_status(sandbox) if sandbox else None,
                    containers_statuses=[messages.container_status(other) for other in others],
                )
        finally:
            self.runtime.containers.subscribers.remove(queue)

    @with_status_codes
    async def CheckpointContainer(self, request: Any) -> Any:  # noqa: N802
        raise NotImplementedError("checkpoints of containers are not provided by this runtime")
