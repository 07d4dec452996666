"""A limit that a pod asks for is set by the played hook of a real node's runtime, read back and published."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cotenant.contract import Contract, GpuGrant, PodGrant, RankGrant
from tests.live.agent.conftest import in_this_namespace
from tests.live.waiting import wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

GIB = 1 << 30
NODE, SHARE = "limited", 32_768
GPUS = [f"gpu {i} GPU-n-{i}|NVIDIA H100 80GB HBM3|{80 * GIB}|0|{i}" for i in range(2)]
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}


def pod(name: str, gpu: str) -> dict[str, Any]:
    """A pod as the operator makes it, with a program that shows its environment and waits."""
    grant = RankGrant(0, (GpuGrant(gpu, SHARE, 400, whole=False),))
    contract = Contract(name, "default", "u", 1, 0, (PodGrant("h", (grant,)),), "command").to_json()
    env = {
        "COTENANT_CONTRACT": contract,
        "NVIDIA_VISIBLE_DEVICES": gpu,
        "NVIDIA_GPU_MEMORY_REQUEST": "1",
        "NVIDIA_GPU_MEMORY_LIMIT": str(SHARE),
    }
    container = {
        "name": "worker",
        "image": "ghcr.io/cotenant/tools",
        "command": ["sh", "-c", "echo limit=$NVIDIA_GPU_MEMORY_LIMIT; sleep 3600"],
        "env": [{"name": key, "value": value} for key, value in env.items()],
    }
    spec = {"runtimeClassName": "nvidia", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


class World:
    """One node whose runtime plays the hook, and its agent on this machine; the driver is a folder that both see."""

    def __init__(self, cluster: Cluster, library: Path, log: Path) -> None:
        self.cluster, self.log = cluster, log
        self.driver = cluster.state.gpu_driver(NODE)
        (self.driver / "sys/fs/cgroup").mkdir(parents=True)
        (self.driver / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory dmem\n")
        (self.driver / "proc/1").mkdir(parents=True)
        (self.driver / "proc/1/cgroup").write_text("0::/init.scope")
        (self.driver / "proc/1/stat").write_text("1 (init) S " + " ".join(["0"] * 18) + " 7 0")
        (self.driver / "state").write_text("\n".join(["driver 0 615.71.09", *GPUS]) + "\n")
        crd = Path(__file__).parents[3] / "crds" / "gpunodes.yaml"
        cluster.kubectl("apply", "--server-side", "-f", str(crd))
        cluster.kubectl("wait", "--for=condition=Established", "crd/gpunodes.cotenant.dev")
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(RUNTIME_CLASS))
        environment = os.environ | {
            "KUBECONFIG": str(cluster.kubeconfig),
            "LD_LIBRARY_PATH": str(library.parent),
            "FAKE_NVML_STATE": str(self.driver / "state"),
        }
        arguments = ["--node", NODE, "--host", str(self.driver), "--toolkit-version", "1.20.1", "--poll", "0.2"]
        arguments += ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
        with log.open("w") as out:
            command = in_this_namespace(self.driver, sys.executable, "-m", "cotenant_agent", *arguments)
            self.agent = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)

    def status(self) -> dict[str, Any]:
        text = self.cluster.kubectl("get", "gpunode", NODE, "--ignore-not-found", "-o", "json")
        return dict(json.loads(text).get("status", {})) if text else {}

    def wait(self, true: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
        def told() -> str:
            return f"{what}; {self.status()}; {self.log.read_text()}"

        def as_wanted() -> dict[str, Any]:
            assert self.agent.poll() is None, f"the agent ended: {told()}"
            status = self.status()
            return status if true(status) else {}

        return wait_until(as_wanted, told)


@pytest.fixture(scope="module")
def world(fake_nvml: Callable[[bool], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from cotenant_local.cluster import lifecycle, spec

    gpus = {"count": 2, "class": "H100", "memoryLimits": True}
    wanted = spec.parse({"nodes": [{"name": NODE, "gpus": gpus}]}, "test")
    name = f"limits-{os.getpid()}"
    cluster = lifecycle.up(name, wanted, attached=True)
    try:
        world = World(cluster, fake_nvml(False), tmp_path_factory.mktemp("agent") / "log")
        try:
            world.wait(lambda status: status.get("gpus"), "a first status")
            yield world
        finally:
            world.agent.terminate()
            world.agent.wait(30)
    finally:
        lifecycle.down(name)


def test_a_limit_is_set_read_back_and_hard_and_one_that_is_not_set_lowers_the_node(world: World) -> None:
    assert world.status()["isolationLevels"] == {"memory": "Watched", "compute": "None"}
    world.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod("first", "GPU-n-0")))
    status = world.wait(lambda status: status["isolationLevels"]["memory"] == "Hard", "the limit is read back")
    (limit,) = status["limits"]
    assert (limit["uuid"], limit["wanted"], limit["state"], limit["inForce"]) == ("GPU-n-0", SHARE, "InForce", SHARE)
    assert world.cluster.kubectl("logs", "first").strip() == f"limit={SHARE}"
    (world.driver / "faults").write_text("missing")
    world.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod("second", "GPU-n-1")))
    status = world.wait(lambda status: status["isolationLevels"]["memory"] == "Watched", "the node is lowered")
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "MemoryIsolationLowered",
        "True",
        "WasHard",
    )
    assert (
        "pod default/second on GPU-n-1: a limit of 32768 MiB was asked for, and there is none" in condition["message"]
    )
