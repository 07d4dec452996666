"""A node whose driver is played and everything else is not: its libraries, `nvidia-smi` and MPS's control program.

The chart's own agent and keeper of MPS run in it as pods; they are shown the folder `gpu-driver` of the node, where the
runtime's played hook of the container toolkit keeps its limits too. A test writes there what the driver shows.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from cotenant_local.host import folders
from cotenant_local.runtime.containers.images import PATH
from tests.live.e2e.tenancy import SYSTEM

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

HERE, TESTS = Path(__file__).parent, Path(__file__).parents[3]
GIB = 1 << 30
UUIDS = [f"GPU-0a1b2c3d-0000-0000-0000-00000000000{number}" for number in (1, 2)]
SERVER_PID = 4711
NO_DEVICE_NODE = "nvmlDeviceGetMinorNumber 3"
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}


@contextmanager
def cuda_library() -> Iterator[Path]:
    """The folder of a libcuda.so.1 for images of workers; outside /tmp, of which containers have their own."""
    with TemporaryDirectory(prefix="played-cuda-", dir=folders.cache()) as made:
        Path(made).chmod(0o755)  # workers are an ordinary user
        _compile(HERE / "fake_cuda.c", Path(made) / "libcuda.so.1")
        yield Path(made)


class PlayedDriver:
    """What the driver of one node shows and does."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self.folder = cluster.state.gpu_driver(node)
        self.state, self.world = self.folder / "state", self.folder / "mps"
        for made in ("lib", "bin", "mps", "proc", "sys/fs/cgroup"):
            (self.folder / made).mkdir(parents=True, exist_ok=True)
        (self.folder / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory dmem\n")
        _compile(TESTS / "agent/gpus/fake_nvml.c", self.folder / "lib/libnvidia-ml.so.1")
        self._program("nvidia-smi", HERE / "fake_nvidia_smi.py")
        self._program("nvidia-cuda-mps-control", TESTS / "agent/mps/fake_mps_control.py")
        gpus = [f"gpu {i} {uuid}|NVIDIA H100 80GB HBM3|{80 * GIB}|0|{i}" for i, uuid in enumerate(UUIDS)]
        plain = [f"fail {i} {NO_DEVICE_NODE}\nmode {i} 0\nrecovery {i} 0" for i in range(len(UUIDS))]
        self.state.write_text("\n".join(["driver 0 615.71.09", *gpus, *plain]) + "\n")
        self.tell_mps("gpus", *UUIDS)
        self.begin_process(1, "0::/init.scope")
        self.begin_process(SERVER_PID, "0::/system.slice/mps")

    def _program(self, name: str, source: Path) -> None:
        script = self.folder / "bin" / source.name
        shutil.copy(source, script)
        variables = f"FAKE_MPS={self.world} FAKE_NVML_STATE={self.state}"
        path = self.folder / "bin" / name
        path.write_text(f'#!/bin/sh\n{variables} exec python {script} "$@"\n')
        path.chmod(0o755)

    def tell_mps(self, name: str, *lines: str) -> None:
        _replace(self.world / name, lines)

    def show(self, *lines: str) -> None:
        """Have the driver show these lines too."""
        _replace(self.state, [*self.state.read_text().splitlines(), *lines])

    def hide(self, *begin: str) -> None:
        """Remove every line with this beginning."""
        _replace(self.state, [line for line in self.state.read_text().splitlines() if not line.startswith(begin)])

    def begin_process(self, pid: int, cgroup: str) -> None:
        folder = self.folder / "proc" / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(f"{pid} (python) S " + " ".join(["0"] * 18) + " 7 0")
        (folder / "cgroup").write_text(cgroup)

    def compute(self, pid: int, pod_uid: str, gpu: str, namespace: str) -> None:
        """Have a program of this pod compute on the GPU, as a client in this MPS namespace; without a namespace, beside
        MPS.
        """
        self.begin_process(pid, f"0::/kubepods/pod{pod_uid}/{'a' * 64}")
        index = UUIDS.index(gpu)
        path = self.world / "clients"
        clients = path.read_text().split() if path.exists() else []
        if namespace:  # it is a client before the driver shows it
            self.tell_mps("clients", *clients, f"{pid}={namespace}")
        self.show(f"mps {index} {pid} {GIB}", f"process {index} {SERVER_PID} {GIB}")

    def end_processes(self) -> None:
        self.hide("mps ", "process ")
        (self.world / "clients").unlink(missing_ok=True)
        for folder in (self.folder / "proc").glob("[0-9]*"):
            if "pod" in (folder / "cgroup").read_text():
                shutil.rmtree(folder)

    def lend(self, cluster: Cluster) -> None:
        """Show the folder to the chart's agent and keeper, and have them find the played programs first."""
        env = {
            "LD_LIBRARY_PATH": f"{self.folder}/lib",
            "FAKE_NVML_STATE": str(self.state),
            "PATH": f"{self.folder}/bin:{sys.prefix}/bin:{PATH}",
        }
        container = "/spec/template/spec/containers/0"
        added = [
            _added("/spec/template/spec/volumes/-", {"name": "driver", "hostPath": {"path": str(self.folder)}}),
            _added(f"{container}/volumeMounts/-", {"name": "driver", "mountPath": str(self.folder)}),
            *(_added(f"{container}/env/-", {"name": name, "value": value}) for name, value in env.items()),
        ]
        # As in a pod with hostPID, the played /proc names its reader. Kubernetes makes $$ of $$$$.
        reader = ["sh", "-c", f'ln -sfn $$$$ {self.folder}/proc/self && exec python -m cotenant_agent "$@"', "agent"]
        agent = [
            *added,
            {"op": "replace", "path": f"{container}/command", "value": reader},
            _added(f"{container}/args/-", f"--host={self.folder}"),
        ]
        for name, patch in (("cotenant-agent", agent), ("cotenant-mps", added)):
            cluster.kubectl("patch", "daemonset", name, "-n", SYSTEM, "--type=json", "-p", json.dumps(patch))
        component = "app.kubernetes.io/component in (agent, mps)"
        cluster.kubectl("delete", "pod", "-n", SYSTEM, "-l", component, "--grace-period=1", "--wait")


def _replace(path: Path, lines: Iterable[str]) -> None:
    """Replace the file at once: a reader sees the old lines or the new ones."""
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_text("\n".join(lines) + "\n")
    unfinished.rename(path)


def _added(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _compile(source: Path, target: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip(f"no C compiler: {target.name} cannot be built")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", target, source], check=True)
