"""Statistics as the kubelet reads them: the measured values in the interface's messages."""

from typing import Any

from cotenant_local.runtime.containers import usage
from cotenant_local.runtime.containers.container import Container
from cotenant_local.runtime.containers.sandboxes import Sandbox
from cotenant_local.runtime.containers.usage import ContainerUsage
from cotenant_local.runtime.interface import proto


def _value(number: int) -> Any:
    return proto.pb.UInt64Value(value=number)


def container_stats(container: Container, measured: ContainerUsage, root: str) -> Any:
    pb, config = proto.pb, container.config
    attributes = pb.ContainerAttributes(
        id=container.id, metadata=config.metadata, labels=config.labels, annotations=config.annotations
    )
    layer = pb.FilesystemUsage(
        timestamp=measured.timestamp,
        fs_id=pb.FilesystemIdentifier(mountpoint=root),
        used_bytes=_value(measured.written),
        inodes_used=_value(measured.files),
    )
    return pb.ContainerStats(
        attributes=attributes, cpu=_cpu([measured]), memory=_memory([measured]), writable_layer=layer
    )


def _cpu(measured: list[ContainerUsage]) -> Any:
    newest = max((one.timestamp for one in measured), default=0)
    return proto.pb.CpuUsage(timestamp=newest, usage_core_nano_seconds=_value(sum(one.cpu for one in measured)))


def _memory(measured: list[ContainerUsage]) -> Any:
    return proto.pb.MemoryUsage(
        timestamp=max((one.timestamp for one in measured), default=0),
        working_set_bytes=_value(sum(one.working_set for one in measured)),
        usage_bytes=_value(sum(one.memory for one in measured)),
        rss_bytes=_value(sum(one.resident for one in measured)),
    )


def sandbox_stats(sandbox: Sandbox, containers: list[Container], measured: dict[str, ContainerUsage], root: str) -> Any:
    pb = proto.pb
    mine = [(container, measured[container.id]) for container in containers if container.id in measured]
    usages = [one for _, one in mine]
    received, receive_errors, sent, send_errors = usage.network(sandbox)
    interface = pb.NetworkInterfaceUsage(
        name="eth0",
        rx_bytes=_value(received),
        rx_errors=_value(receive_errors),
        tx_bytes=_value(sent),
        tx_errors=_value(send_errors),
    )
    newest = max((one.timestamp for one in usages), default=0)
    attributes = pb.PodSandboxAttributes(
        id=sandbox.id,
        metadata=sandbox.config.metadata,
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
    )
    return pb.PodSandboxStats(
        attributes=attributes,
        linux=pb.LinuxPodSandboxStats(
            cpu=_cpu(usages),
            memory=_memory(usages),
            network=pb.NetworkUsage(timestamp=newest, default_interface=interface, interfaces=[interface]),
            process=pb.ProcessUsage(timestamp=newest, process_count=_value(sum(one.processes for one in usages))),
            containers=[container_stats(container, one, root) for container, one in mine],
        ),
    )
