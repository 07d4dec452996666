"""The statistics calls of CRI v1: of containers and of pods, single, listed, streamed."""

from collections.abc import AsyncIterator
from typing import Any

from cotenant_local.runtime.containers.container import StateError
from cotenant_local.runtime.cri import messages, stats_messages
from cotenant_local.runtime.cri.grpc_errors import with_status_codes
from cotenant_local.runtime.cri.node_runtime import NodeRuntime
from cotenant_local.runtime.interface import proto


class StatsService:
    """One method per call of the interface, named as there. A container that has ended has no statistics."""

    def __init__(self, runtime: NodeRuntime) -> None:
        self.runtime = runtime

    def _containers(self, chosen: Any) -> list[Any]:
        containers = messages.chosen_containers(self.runtime.containers.all.values(), chosen, by_state=False)
        measured = self.runtime.meter.measure(containers)
        root = str(self.runtime.storage())
        running = [container for container in containers if container.id in measured]
        return [stats_messages.container_stats(container, measured[container.id], root) for container in running]

    def _sandboxes(self, chosen: Any) -> list[Any]:
        sandboxes = messages.chosen_sandboxes(self.runtime.sandboxes.all.values(), chosen, by_state=False)
        measured = self.runtime.meter.measure(list(self.runtime.containers.all.values()))
        root = str(self.runtime.storage())
        return [
            stats_messages.sandbox_stats(sandbox, self.runtime.containers.of(sandbox), measured, root)
            for sandbox in sandboxes
            if sandbox.ready
        ]

    @with_status_codes
    async def ContainerStats(self, request: Any) -> Any:  # noqa: N802 (the interface's names, in this class)
        container = self.runtime.container(request.container_id)
        found = self._containers(proto.pb.ContainerStatsFilter(id=container.id))
        return proto.pb.ContainerStatsResponse(stats=_only(found, f"container {container.id}"))

    @with_status_codes
    async def ListContainerStats(self, request: Any) -> Any:  # noqa: N802
        return proto.pb.ListContainerStatsResponse(stats=self._containers(request.filter))

    async def StreamContainerStats(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        for one in self._containers(request.filter):
            yield proto.pb.StreamContainerStatsResponse(container_stats=[one])

    @with_status_codes
    async def PodSandboxStats(self, request: Any) -> Any:  # noqa: N802
        sandbox = self.runtime.sandbox(request.pod_sandbox_id)
        found = self._sandboxes(proto.pb.PodSandboxStatsFilter(id=sandbox.id))
        return proto.pb.PodSandboxStatsResponse(stats=_only(found, f"pod sandbox {sandbox.id}"))

    @with_status_codes
    async def ListPodSandboxStats(self, request: Any) -> Any:  # noqa: N802
        return proto.pb.ListPodSandboxStatsResponse(stats=self._sandboxes(request.filter))

    async def StreamPodSandboxStats(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        for one in self._sandboxes(request.filter):
            yield proto.pb.StreamPodSandboxStatsResponse(pod_sandbox_stats=[one])

    @with_status_codes
    async def ListMetricDescriptors(self, request: Any) -> Any:  # noqa: N802
        """None beyond the statistics above."""
        return proto.pb.ListMetricDescriptorsResponse()

    @with_status_codes
    async def ListPodSandboxMetrics(self, request: Any) -> Any:  # noqa: N802
        return proto.pb.ListPodSandboxMetricsResponse()


def _only(found: list[Any], what: str) -> Any:
    if not found:
        raise StateError(f"{what} is not running")
    return found[0]
