"""Worker pods without Kubernetes: namespaces on a bridge, one launcher as PID 1 in each.

Each pod has its own network (eth0, 10.77.0.x), processes, /tmp, /dev/shm and host name, and a part of the CPUs as a
kubelet would give it where cgroups are there; the pods know each other by /etc/hosts. Needs root on Linux with `ip` and
`unshare`; `missing` names what is not there.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cotenant.contract import Contract, GpuGrant, PodGrant, RankGrant
from cotenant_local.host.patience import Patience
from tests.support.pod import Pod

CHECKOUT = Path(__file__).resolve().parents[2]
LAUNCHER = f"exec {sys.executable} -P -m cotenant_worker"
"""Shell command of a worker pod."""


def missing() -> str:
    """The reason why this machine cannot run pods in namespaces; empty when it can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "needs root on Linux (network namespaces)"
    absent = [tool for tool in ("ip", "unshare", "mount") if shutil.which(tool) is None]
    if absent:
        return f"needs {', '.join(absent)}"
    probe = subprocess.run(["unshare", "-n", "-p", "-m", "-u", "-f", "true"], capture_output=True, check=False)
    return "" if probe.returncode == 0 else f"cannot unshare: {probe.stderr.decode().strip()}"


def uuid_of(name: str) -> str:
    return f"GPU-00000000-0000-0000-0000-{name:0>12}"


def contract(pods: Sequence[int], **fields: Any) -> Contract:
    """A contract for pods with so many ranks each; every rank has a simulated 0.4 share of a GPU of its own.

    `servers` are the host names of parameter servers, whose pods come after these.
    """
    ranks = iter(range(sum(pods)))
    grants = tuple(
        PodGrant(
            host=f"pod-{index}",
            ranks=tuple(
                RankGrant(rank, (GpuGrant(uuid_of(f"{rank}a"), 32768, 400, whole=False, simulated=True),))
                for rank in (next(ranks) for _ in range(count))
            ),
        )
        for index, count in enumerate(pods)
    )
    base: dict[str, Any] = {
        "job": "job",
        "namespace": "team",
        "uid": secrets.token_hex(4),
        "attempt": 1,
        "node_rank": 0,
    }
    return Contract(**{**base, "pods": grants, "mode": "command", **fields})


@dataclass(slots=True)
class PodSandbox:
    """Some pods of one contract. A context manager: nothing is left when it closes."""

    contract: Contract
    code: Path
    env: dict[str, str] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    base: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="cotenant-pods-", dir="/var/tmp")))
    token: str = field(default_factory=lambda: secrets.token_hex(32))
    _bridge: str = ""

    def __enter__(self) -> PodSandbox:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as on Ctrl-C: leave nothing behind
        self._bridge = f"ct{secrets.token_hex(3)}"
        run("ip", "netns", "add", self._bridge)
        inside = ["ip", "-n", self._bridge]
        run(*inside, "link", "add", "br0", "type", "bridge")
        run(*inside, "link", "set", "br0", "up")
        hosts = "127.0.0.1 localhost\n"
        hosts += "".join(f"10.77.0.{index + 1} {host}\n" for index, host in enumerate(self.hosts))
        (self.base / "hosts").write_text(hosts)
        for index in range(len(self.hosts)):
            name = f"{self._bridge}{index}"
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
            veth = ["type", "veth", "peer", "name", f"p{index}", "netns", self._bridge]
            run("ip", "-n", name, "link", "add", "eth0", *veth)
            run(*inside, "link", "set", f"p{index}", "master", "br0", "up")
            run("ip", "-n", name, "addr", "add", f"10.77.0.{index + 1}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
        return self

    def start(self, index: int, *, token: str | None = None, shell: str = LAUNCHER, **overrides: str) -> Pod:
        """Pod `index`; a second call starts its replacement. `shell`: what its PID 1 becomes."""
        directory = self.base / f"pod-{index}-{len(self.pods)}"
        directory.mkdir()
        (directory / "termination").touch()
        document = replace(
            self.contract,
            node_rank=index,
            platform={"codePath": str(self.code), **self.contract.platform},
        )
        env = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "COTENANT_CONTRACT": document.to_json(),
            "COTENANT_TERMINATION_LOG": str(directory / "termination"),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token if token is None else token,
            "POD_IP": f"10.77.0.{index + 1}",
            **self.env,
            **overrides,
        }
        script = (
            f"{self._empty_tmp()} && mount -t tmpfs tmpfs /dev/shm && mount --bind {self.base}/hosts /etc/hosts"
            f" && hostname pod-{index} && {shell}"
        )
        command = [*self._own_cpus(index), "ip", "netns", "exec", f"{self._bridge}{index}"]
        command += ["unshare", "-p", "-m", "-u", "-i", "-f", "--kill-child", "--mount-proc", "sh", "-c", script]
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(command, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        pod = Pod(index, process, directory, f"{self._bridge}{index}", time.monotonic())
        self.pods.append(pod)
        return pod

    def _own_cpus(self, index: int) -> list[str]:
        """Prefix of a command that runs it in a cgroup of the pod's own, with as much weight as every other pod."""
        group = cpu_groups()
        if group is None:
            return []
        mine = group / f"{self._bridge}{index}"  # the start of a local cluster removes empty ones named cotenant-*
        try:
            mine.mkdir(exist_ok=True)
        except OSError:
            return []  # as in most containers, where cgroups are read-only
        return ["sh", "-c", f'echo 0 > {mine}/cgroup.procs && exec "$@"', "sh"]

    def _empty_tmp(self) -> str:
        """Shell: a /tmp of the pod's own. A checkout that lies under /tmp stays where it is."""
        if not CHECKOUT.is_relative_to("/tmp"):
            return "mount -t tmpfs tmpfs /tmp"
        kept = self.base / "checkout"
        kept.mkdir(exist_ok=True)
        return (
            f"mount --bind {CHECKOUT} {kept} && mount -t tmpfs tmpfs /tmp"
            f" && mkdir -p {CHECKOUT} && mount --bind {kept} {CHECKOUT}"
        )

    @property
    def hosts(self) -> list[str]:
        """Addresses of the pods by node rank."""
        return [*(pod.host for pod in self.contract.pods), *self.contract.servers]

    def start_all(self) -> list[Pod]:
        return [self.start(index) for index in range(len(self.hosts))]

    def disconnect(self, index: int) -> None:
        """Take the pod's network away, as a broken cable would: no packet announces it."""
        run("ip", "-n", self._bridge, "link", "set", f"p{index}", "down")

    def reconnect(self, index: int) -> None:
        run("ip", "-n", self._bridge, "link", "set", f"p{index}", "up")

    def leftover_processes(self) -> list[str]:
        """Processes that still live in a pod's network although the pod has ended."""
        found: list[str] = []
        for index in range(len(self.hosts)):
            command = ["ip", "netns", "pids", f"{self._bridge}{index}"]
            found += subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return found

    def logs(self) -> str:
        return "\n".join(f"--- pod {pod.index}\n{pod.log()}" for pod in self.pods)

    def __exit__(self, *_: object) -> None:
        for pod in self.pods:
            if pod.process.poll() is None:
                pod.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    pod.process.wait(5)
                pod.process.kill()
                pod.process.wait(5)
        group = cpu_groups()
        for index in range(len(self.hosts)):
            run("ip", "netns", "del", f"{self._bridge}{index}", check=False)
            if group is not None:
                with contextlib.suppress(OSError):  # a process that is only just ending keeps it
                    (group / f"{self._bridge}{index}").rmdir()
        run("ip", "netns", "del", self._bridge, check=False)
        shutil.rmtree(self.base, ignore_errors=True)


def cpu_groups() -> Path | None:
    """Folder in which cgroups that divide CPU time can be made, of version 1 or 2; None where there is none."""
    first, second = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    if (first / "cpu.shares").is_file():
        return first
    with contextlib.suppress(OSError):
        if "cpu" in (second / "cgroup.subtree_control").read_text().split():
            return second
    return None


@contextlib.contextmanager
def directory(mib: int = 0) -> Iterator[Path]:
    """A directory that all pods share, as a volume would be; their /tmp is their own. `mib`: its size, if limited."""
    path = Path(tempfile.mkdtemp(prefix="cotenant-shared-", dir="/var/tmp"))
    if mib:
        run("mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(path))
    try:
        yield path
    finally:
        if mib:
            run("umount", "-l", str(path), check=False)
        shutil.rmtree(path, ignore_errors=True)


def run(*command: str, check: bool = True) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def until(condition: Callable[[], Any], deadline_s: float, what: str) -> Any:
    """The first true value of `condition`; TimeoutError with `what` after the deadline."""
    patience = Patience(deadline_s)
    while not patience.exhausted():
        with contextlib.suppress(subprocess.CalledProcessError, json.JSONDecodeError, IndexError, OSError):
            value = condition()
            if value:
                return value
        time.sleep(0.05)
    raise TimeoutError(f"not within {patience}: {what}")
