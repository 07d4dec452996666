"""Containers: created from a spec, started through a shim, watched to their end, found again after a restart."""

import asyncio
import contextlib
import logging
import signal
import time
from pathlib import Path
from typing import Any, Final

from cotenant_local.runtime.containers import container_spec, disk_records
from cotenant_local.runtime.containers.container import RECORDED, Container, StateError
from cotenant_local.runtime.containers.container_environment import ContainerEnvironment
from cotenant_local.runtime.containers.images import Image
from cotenant_local.runtime.containers.sandboxes import Sandbox
from cotenant_local.runtime.interface import field_support, proto
from cotenant_local.runtime.interface.config import RuntimeConfig
from cotenant_local.runtime.interface.unsupported import UnsupportedError
from cotenant_local.runtime.isolation import cdi, cgroup_settings, container_cgroups, nvidia
from cotenant_local.runtime.isolation.container_cgroups import ContainerCgroup, NodeCgroups
from cotenant_local.runtime.isolation.gpu_memory_hook import HookError, MemoryLimitHook
from cotenant_local.runtime.isolation.id_map import IdMap
from cotenant_local.runtime.shim import shim_client
from cotenant_local.runtime.shim.zygote_client import LaunchError, ZygoteClient

log = logging.getLogger(__name__)
KILL_DEADLINE_S: Final = 10.0


class Containers:
    def __init__(self, config: RuntimeConfig, zygote: ZygoteClient) -> None:
        self.config = config
        self.zygote = zygote
        self.folder = config.state_dir / "containers"
        self.ids = IdMap.here()
        self.cgroups = NodeCgroups(config.cgroup_parent)
        self.memory_limits = MemoryLimitHook(config.gpu_driver) if config.gpu_driver else None
        self.all: dict[str, Container] = {}
        self.subscribers: list[asyncio.Queue[tuple[int, Container]]] = []

    def recover(self) -> None:
        """Takes over the containers of an earlier runtime after a start. Call inside the event loop."""
        for folder, message, meta in disk_records.each(self.folder, proto.pb.ContainerConfig):
            container = Container(folder.name, folder, message, **{name: meta[name] for name in RECORDED})
            if meta["cgroup"]:
                folders = {name: Path(path) for name, path in meta["cgroup"].items()}
                container.cgroup = ContainerCgroup(folders, self.cgroups.unified)
            container.exit = disk_records.read(folder / "exit.json")
            container.started = disk_records.read(folder / "started.json")
            self.all[container.id] = container
            if container.running:
                container.watcher = asyncio.create_task(self._watch(container))

    def find(self, name: str) -> Container | None:
        return disk_records.find(self.all, name)

    def of(self, sandbox: Sandbox) -> list[Container]:
        return [container for container in self.all.values() if container.sandbox_id == sandbox.id]

    def create(self, config: Any, sandbox: Sandbox, image: Image) -> Container:
        """Raises UnsupportedError for requests that cannot be honoured."""
        field_support.reject_unknown(config, field_support.CONTAINER)
        name = disk_records.new_id()
        folder = self.folder / name
        resources = config.linux.resources
        cgroup = self.cgroups.make(sandbox.cgroup, name, resources) if self.cgroups else None
        try:
            return self._record(config, sandbox, image, self._environment(config, sandbox, folder, cgroup))
        except BaseException:
            if cgroup is not None:
                cgroup.remove()
            raise

    def _record(self, config: Any, sandbox: Sandbox, image: Image, environment: ContainerEnvironment) -> Container:
        folder, cgroup = Path(environment.folder), environment.cgroup
        document = container_spec.build(config, image, environment)
        process = document["process"]
        self._limit_gpu_memory(process["env"], sandbox, folder.name)
        meta: dict[str, Any] = {
            "sandbox_id": sandbox.id,
            "image_id": image.id,
            "created_at": time.time_ns(),
            "uid": process["uid"],
            "gid": process["gid"],
            "groups": process["groups"],
            "log_path": document["log_path"],
            "notes": document["notes"],
        }
        folder.mkdir(parents=True)
        (folder / "root").mkdir()
        disk_records.write(folder / "spec.json", document)
        (folder / "config.pb").write_bytes(config.SerializeToString())
        paths = {name: str(path) for name, path in cgroup.folders.items()} if cgroup else None
        disk_records.write(folder / "meta.json", {**meta, "cgroup": paths})
        container = Container(folder.name, folder, config, **meta, cgroup=cgroup)
        self.all[container.id] = container
        for note in container.notes:
            log.warning("container %s: %s", config.metadata.name, note)
        self._emit(proto.pb.CONTAINER_CREATED_EVENT, container)
        return container

    def _limit_gpu_memory(self, env: dict[str, str], sandbox: Sandbox, name: str) -> None:
        """Limit GPU memory, if the container has NVIDIA's runtime class: only such containers go through its
        hooks."""
        if self.memory_limits is None or sandbox.handler != nvidia.HANDLER:
            return
        try:
            self.memory_limits.create_runtime(env, sandbox.config.metadata.uid, name)
        except HookError as error:
            raise UnsupportedError(str(error)) from error

    def _environment(
        self, config: Any, sandbox: Sandbox, folder: Path, cgroup: ContainerCgroup | None
    ) -> ContainerEnvironment:
        pb = proto.pb
        options = config.linux.security_context.namespace_options
        pid_namespace = "new"
        if options.pid == pb.POD and sandbox.options.pid == pb.POD:
            pid_namespace = f"/proc/{sandbox.pid}/ns/pid"
        elif options.pid == pb.NODE:
            pid_namespace = ""
        elif options.pid == pb.TARGET:
            target = self.find(options.target_id)
            if target is None or not target.running:
                raise UnsupportedError(f"target container {options.target_id} is not running")
            pid_namespace = f"/proc/{target.pid}/ns/pid"
        return ContainerEnvironment(
            folder=str(folder),
            ids=self.ids,
            sandbox_pid=sandbox.pid,
            private_namespaces=sandbox.private_namespaces,
            hostname=sandbox.hostname,
            address=sandbox.address or self.config.node_address,
            resolv_conf=sandbox.resolv_conf(),
            shm="/dev/shm" if sandbox.options.ipc == pb.NODE else str(sandbox.shm),
            pid_namespace=pid_namespace,
            log_directory=sandbox.config.log_directory,
            cgroup=cgroup,
            handler=sandbox.handler,
            devices=cdi.edits((device.name for device in config.CDI_devices), self.config.cdi_dirs),
        )

    async def start(self, container: Container) -> None:
        """Returns when the program runs; raises LaunchError with the shim's sentence when it cannot."""
        if container.started or container.exit:
            raise StateError(f"container {container.id} was started already")
        try:
            await self.zygote.call({"task": "container", "folder": str(container.folder)})
        except LaunchError as error:
            container.exit = disk_records.read(container.folder / "exit.json") or _exit_record("StartError", str(error))
            self._emit(proto.pb.CONTAINER_STOPPED_EVENT, container)
            raise
        container.started = disk_records.read(container.folder / "started.json")
        container.watcher = asyncio.create_task(self._watch(container))
        self._emit(proto.pb.CONTAINER_STARTED_EVENT, container)

    async def _watch(self, container: Container) -> None:
        await shim_client.wait_ended(container.folder)
        container.exit = disk_records.read(container.folder / "exit.json")
        if container.exit is None:
            container.exit = _exit_record("Error", "the container's shim was killed, and the container with it")
            disk_records.write(container.folder / "exit.json", container.exit)
        self._emit(proto.pb.CONTAINER_STOPPED_EVENT, container)

    async def stop(self, container: Container, grace: float) -> None:
        """The stop signal, the grace period, SIGKILL. Safe to repeat; returns when the container has ended."""
        if not container.running or container.watcher is None:
            return
        number = _stop_signal(container.config.stop_signal)
        if grace > 0:
            with contextlib.suppress(shim_client.ShimError):
                await shim_client.request(container.folder, op="signal", number=number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(container.watcher), grace)
                return
        with contextlib.suppress(shim_client.ShimError):
            await shim_client.request(container.folder, op="signal", number=int(signal.SIGKILL))
        try:
            await asyncio.wait_for(asyncio.shield(container.watcher), KILL_DEADLINE_S)
        except TimeoutError as error:
            raise StateError(
                f"container {container.id} did not end within {KILL_DEADLINE_S:.0f} s of SIGKILL"
            ) from error

    async def remove(self, container: Container) -> None:
        await self.stop(container, 0)
        self.all.pop(container.id, None)
        if container.cgroup is not None:
            container.cgroup.remove()
        if self.memory_limits is not None:
            self.memory_limits.post_stop(container.id)
        disk_records.remove(container.folder)
        self._emit(proto.pb.CONTAINER_DELETED_EVENT, container)

    def update(self, container: Container, resources: Any) -> None:
        """New limits for a container, kept over a restart; raises LimitError."""
        if container.cgroup is not None:
            container_cgroups.apply(container.cgroup, resources)
        elif missing := cgroup_settings.unenforced(resources):
            log.warning("container %s: %s", container.config.metadata.name, missing)
        container.config.linux.resources.MergeFrom(resources)
        (container.folder / "config.pb").write_bytes(container.config.SerializeToString())

    def _emit(self, kind: int, container: Container) -> None:
        for queue in self.subscribers:
            queue.put_nowait((kind, container))


def _exit_record(reason: str, message: str) -> dict[str, Any]:
    code = 128 if reason == "StartError" else 137
    return {"exit_code": code, "signal": 0, "reason": reason, "message": message, "finished_at": time.time_ns()}


def _stop_signal(value: int) -> int:
    """The machine's number of the interface's signal; SIGTERM unless the pod names another."""
    name = proto.pb.Signal.Name(value)
    if name == "RUNTIME_DEFAULT":
        return int(signal.SIGTERM)
    if name.startswith("SIGRTMINPLUS"):
        return int(signal.SIGRTMIN) + int(name.removeprefix("SIGRTMINPLUS"))
    if name.startswith("SIGRTMAXMINUS"):
        return int(signal.SIGRTMAX) - int(name.removeprefix("SIGRTMAXMINUS"))
    return int(getattr(signal, {"SIGCLD": "SIGCHLD", "SIGIOT": "SIGABRT"}.get(name, name)))
