"""A node's runtime in a sandbox of its own, spoken to as the kubelet would. `Kubelet` builds the messages and asks."""

import dataclasses
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from cotenant_local.programs import build
from cotenant_local.runtime.containers import images
from cotenant_local.runtime.interface import config, proto
from local.tests.host.ordinary_user import User, readable_python
from tests.live.waiting import wait_until

ROOT = Path(__file__).resolve().parents[4]
NODE_ADDRESS = "10.99.0.1"
TOOLS = "ghcr.io/cotenant/tools:any"
DEADLINE = 90


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Polls until `condition` is true; fails after the deadline with what was waited for."""
    return wait_until(condition, what, seconds=DEADLINE, pause_s=0.01)


@dataclasses.dataclass
class Kubelet:
    """One runtime under test."""

    folder: Path
    process: "subprocess.Popen[bytes]"
    channel: Any
    runtime: Any
    images: Any

    def pod(self, name: str = "pod", **fields: Any) -> str:
        """Runs a sandbox; its id. `fields` are of PodSandboxConfig."""
        request = proto.pb.RunPodSandboxRequest(config=self.pod_config(name, **fields))
        return str(self.runtime.RunPodSandbox(request).pod_sandbox_id)

    def pod_config(self, name: str, **fields: Any) -> Any:
        logs = self.folder / "logs" / name
        logs.mkdir(parents=True, exist_ok=True)
        logs.chmod(0o777)  # the runtime may be another user than the test
        metadata = proto.pb.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default")
        namespaces = fields.pop("namespaces", {"pid": proto.pb.CONTAINER})
        config_of_pod = proto.pb.PodSandboxConfig(
            metadata=metadata, **{"hostname": name, "log_directory": str(logs), **fields}
        )
        config_of_pod.linux.security_context.namespace_options.CopyFrom(proto.pb.NamespaceOption(**namespaces))
        return config_of_pod

    def create(self, pod: str, *command: str, name: str = "main", security: Any = None, **fields: Any) -> str:
        """Creates a container; its id. `fields` are of ContainerConfig, `security` of its security context."""
        wanted = proto.pb.ContainerConfig(
            metadata=proto.pb.ContainerMetadata(name=name),
            image=proto.pb.ImageSpec(image=fields.pop("image", TOOLS)),
            command=command,
            log_path=f"{name}.log",
            **fields,
        )
        context = proto.pb.LinuxContainerSecurityContext(**(security or {}))
        if not context.HasField("namespace_options"):
            context.namespace_options.pid = proto.pb.CONTAINER
        wanted.linux.security_context.CopyFrom(context)
        request = proto.pb.CreateContainerRequest(pod_sandbox_id=pod, config=wanted)
        return str(self.runtime.CreateContainer(request).container_id)

    def start(self, pod: str, *command: str, **fields: Any) -> str:
        container = self.create(pod, *command, **fields)
        self.runtime.StartContainer(proto.pb.StartContainerRequest(container_id=container))
        return container

    def status(self, container: str) -> Any:
        return self.runtime.ContainerStatus(proto.pb.ContainerStatusRequest(container_id=container)).status

    def finish(self, container: str) -> Any:
        """Waits for the container's end; its status."""

        def ended() -> Any:
            status = self.status(container)
            return status if status.state == proto.pb.CONTAINER_EXITED else None

        return wait_for(ended, f"container {container} to end")

    def log(self, container: str) -> list[str]:
        return Path(self.status(container).log_path).read_text().splitlines()

    def output(self, pod: str, script: str, **fields: Any) -> str:
        """What a shell script in a new container of the pod prints; it must succeed."""
        container = self.start(pod, "/bin/sh", "-c", script, name=f"out{time.monotonic_ns()}", **fields)
        status = self.finish(container)
        text = "\n".join(line.split(" ", 3)[3] for line in self.log(container))
        assert status.exit_code == 0, f"exit {status.exit_code}: {text}"
        return text

    def execute(self, container: str, *command: str, timeout: int = 0) -> Any:
        return self.runtime.ExecSync(proto.pb.ExecSyncRequest(container_id=container, cmd=command, timeout=timeout))

    def stop(self, container: str, grace: int = 0) -> None:
        self.runtime.StopContainer(proto.pb.StopContainerRequest(container_id=container, timeout=grace))

    def remove_pod(self, pod: str) -> None:
        self.runtime.StopPodSandbox(proto.pb.StopPodSandboxRequest(pod_sandbox_id=pod))
        self.runtime.RemovePodSandbox(proto.pb.RemovePodSandboxRequest(pod_sandbox_id=pod))

    def address(self, pod: str) -> str:
        request = proto.pb.PodSandboxStatusRequest(pod_sandbox_id=pod)
        return str(self.runtime.PodSandboxStatus(request).status.network.ip)

    def shared(self, name: str) -> Path:
        """A folder of the node that both sides may write."""
        folder = self.folder / "shared" / name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        return folder

    @property
    def first_process(self) -> int:
        """PID of the sandbox's first process in the namespace of the tests."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def runtime_process(self) -> int:
        children = Path(f"/proc/{self.first_process}/task/{self.first_process}/children").read_text().split()
        return next(int(p) for p in children if b"cotenant_local.runtime" in Path(f"/proc/{p}/cmdline").read_bytes())

    def connect(self, port: int) -> socket.socket:
        """A connection made inside the sandbox's network: what the kubelet would dial."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                command = [
                    sys.executable,
                    Path(__file__).with_name("dial.py"),
                    self.first_process,
                    port,
                    theirs.fileno(),
                ]
                subprocess.run([str(part) for part in command], pass_fds=[theirs.fileno()], check=True)
            said, fds, _, _ = socket.recv_fds(ours, 1024, 1)
        assert fds, said
        return socket.socket(fileno=fds[0])


def run(folder: Path, user: User | None, *, cgroup_parent: str | None = None) -> Kubelet:
    """Starts a sandbox with a runtime, as root or as somebody else; waits until it answers."""
    proto.load(build.stubs_path())
    settings = config.RuntimeConfig(
        node="test-node",
        socket=folder / "cri.sock",
        state_dir=folder / "state",
        pod_cidr="10.98.1.0/24",
        node_address=NODE_ADDRESS,
        catalogue=folder / "images.json",
        log_file=folder / "runtime.log",
        cdi_dirs=(folder / "cdi",),
        cgroup_parent=cgroup_parent,
    )
    settings.catalogue.write_text(json.dumps(images.default_catalogue(ROOT)))
    (folder / "config.json").write_text(config.dump(settings))
    command = ["unshare", *(user.flags if user else ()), "-nmp", "--fork", "--mount-proc", "--kill-child"]
    python, env = sys.executable, {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if user and os.geteuid() == 0:
        python, env["PYTHONPATH"] = readable_python()
        env["XDG_CACHE_HOME"] = str(folder / "cache")
        shutil.copytree(build.stubs_path(), folder / "cache" / "cotenant" / build.stubs_path().name)
        subprocess.run(["chown", "-R", str(user.uid), folder], check=True)
        command = [*user.become(), *command]
    command += [python, str(Path(__file__).parent / "init.py"), str(folder / "config.json"), NODE_ADDRESS]
    process = subprocess.Popen(command, cwd="/", env=env, stderr=(folder / "init.log").open("wb"))

    try:
        wait_for(settings.socket.exists, "the runtime's socket")
    except AssertionError:
        process.kill()
        print((folder / "init.log").read_text())
        raise
    channel = grpc.insecure_channel(f"unix://{settings.socket}")
    grpc.channel_ready_future(channel).result(timeout=DEADLINE)
    return Kubelet(folder, process, channel, proto.rpc.RuntimeServiceStub(channel), proto.rpc.ImageServiceStub(channel))
