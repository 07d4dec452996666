"""CRI messages about sandboxes and containers: values in, messages out, and the filters of the kubelet's lists."""

from collections.abc import Iterable, Mapping
from typing import Any

from cotenant_local.runtime.containers.container import Container
from cotenant_local.runtime.containers.sandboxes import Sandbox
from cotenant_local.runtime.interface import proto


def sandbox_state(sandbox: Sandbox) -> int:
    return int(proto.pb.SANDBOX_READY if sandbox.ready else proto.pb.SANDBOX_NOTREADY)


def sandbox_summary(sandbox: Sandbox) -> Any:
    return proto.pb.PodSandbox(
        id=sandbox.id,
        metadata=sandbox.config.metadata,
        state=sandbox_state(sandbox),
        created_at=sandbox.created_at,
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
        runtime_handler=sandbox.handler,
    )


def sandbox_status(sandbox: Sandbox) -> Any:
    pb = proto.pb
    return pb.PodSandboxStatus(
        id=sandbox.id,
        metadata=sandbox.config.metadata,
        state=sandbox_state(sandbox),
        created_at=sandbox.created_at,
        network=pb.PodSandboxNetworkStatus(ip=sandbox.address),
        linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=sandbox.options)),
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
        runtime_handler=sandbox.handler,
    )


def container_summary(container: Container) -> Any:
    config = container.config
    return proto.pb.Container(
        id=container.id,
        pod_sandbox_id=container.sandbox_id,
        metadata=config.metadata,
        image=config.image,
        image_ref=container.image_id,
        image_id=container.image_id,
        state=container.state,
        created_at=container.created_at,
        labels=config.labels,
        annotations=config.annotations,
    )


def container_status(container: Container) -> Any:
    pb, config = proto.pb, container.config
    end = container.exit or {}
    started = (container.started or {}).get("started_at", 0)
    user = pb.LinuxContainerUser(uid=container.uid, gid=container.gid, supplemental_groups=container.groups)
    return pb.ContainerStatus(
        id=container.id,
        metadata=config.metadata,
        state=container.state,
        created_at=container.created_at,
        started_at=started,
        finished_at=end.get("finished_at", 0),
        exit_code=end.get("exit_code", 0),
        reason=end.get("reason", ""),
        message=end.get("message", ""),
        image=config.image,
        image_ref=container.image_id,
        image_id=container.image_id,
        labels=config.labels,
        annotations=config.annotations,
        mounts=config.mounts,
        log_path=container.log_path,
        resources=pb.ContainerResources(linux=config.linux.resources),
        user=pb.ContainerUser(linux=user),
        stop_signal=config.stop_signal or pb.SIGTERM,
    )


def chosen_sandboxes(sandboxes: Iterable[Sandbox], chosen: Any, *, by_state: bool = True) -> list[Sandbox]:
    return [
        sandbox
        for sandbox in sandboxes
        if (not chosen.id or sandbox.id.startswith(chosen.id))
        and (not by_state or not chosen.HasField("state") or chosen.state.state == sandbox_state(sandbox))
        and _matches(sandbox.config.labels, chosen.label_selector)
    ]


def chosen_containers(containers: Iterable[Container], chosen: Any, *, by_state: bool = True) -> list[Container]:
    return [
        container
        for container in containers
        if (not chosen.id or container.id.startswith(chosen.id))
        and (not chosen.pod_sandbox_id or container.sandbox_id.startswith(chosen.pod_sandbox_id))
        and (not by_state or not chosen.HasField("state") or chosen.state.state == container.state)
        and _matches(container.config.labels, chosen.label_selector)
    ]


def _matches(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())
