"""The agent as a process: real nvidia-ml-py on the fake library, a fixture /proc, and the real API server."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cotenant.contract import Contract, GpuGrant, PodGrant, RankGrant
from cotenant_agent.reports.node_status import parse_time
from tests.live.agent.conftest import in_this_namespace
from tests.live.waiting import wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

GIB = 1 << 30
NODE = "nvml-node"
GPUS = [f"gpu {i} GPU-{name}|NVIDIA H200|{141 * GIB}|{GIB}|0{i}" for i, name in enumerate("ab")]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "greedy", "namespace": "default", "labels": {"app.kubernetes.io/managed-by": "cotenant"}},
    "spec": {"nodeName": NODE, "containers": [{"name": "worker", "image": "ghcr.io/cotenant/worker"}]},
}


class World:
    """One node with two GPUs, its agent, and what the agent sees."""

    def __init__(self, cluster: "Cluster", library: Path, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.show(recovery=0)
        environment = os.environ | {
            "KUBECONFIG": str(cluster.kubeconfig),
            "LD_LIBRARY_PATH": str(library.parent),
            "FAKE_NVML_STATE": str(folder / "state"),
        }
        (folder / "host" / "proc").mkdir(parents=True)
        self.process_on_host(1, "0::/init.scope")
        arguments = ["--node", NODE, "--host", str(folder / "host"), "--listen", "127.0.0.1:0", "--poll", "0.2"]
        arguments += ["--metrics-listen", "127.0.0.1:0"]
        self.log = (folder / "log").open("w")
        command = in_this_namespace(folder / "host", sys.executable, "-m", "cotenant_agent", *arguments)
        self.agent = subprocess.Popen(command, env=environment, stdout=self.log, stderr=subprocess.STDOUT)

    def show(self, *lines: str, recovery: int | None = None) -> None:
        """What the driver says from now on."""
        healthy = [] if recovery is None else [f"recovery {i} {recovery}" for i in range(2)]
        unfinished = self.folder / "state.new"
        unfinished.write_text("\n".join([*GPUS, *healthy, *lines]) + "\n")
        unfinished.rename(self.folder / "state")

    def process_on_host(self, pid: int, cgroup: str) -> None:
        folder = self.folder / "host" / "proc" / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (python) S " + " ".join(["0"] * 18) + " 7 0")
        (folder / "cgroup").write_text(cgroup)

    def status(self) -> dict[str, Any]:
        text = self.cluster.kubectl("get", "gpunode", NODE, "--ignore-not-found", "-o", "json")
        return dict(json.loads(text).get("status", {})) if text else {}

    def wait(self, true: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
        def told() -> str:
            return f"{what}; {self.status()}; {(self.folder / 'log').read_text()}"

        def as_wanted() -> dict[str, Any]:
            assert self.agent.poll() is None, f"the agent ended: {told()}"
            status = self.status()
            return status if true(status) else {}

        return wait_until(as_wanted, told)

    def end(self) -> int:
        self.agent.terminate()
        code = self.agent.wait(30)
        self.log.close()
        return code


@pytest.fixture(scope="module")
def world(
    api_server: "Cluster", fake_nvml: Callable[[bool], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """The CRD, a Node without a kubelet and a RuntimeClass are there; the agent has looked once."""
    crds = Path(__file__).parents[3] / "crds"
    api_server.kubectl("apply", "--server-side", "-f", str(crds / "gpunodes.yaml"))
    api_server.kubectl("wait", "--for=condition=Established", "crd/gpunodes.cotenant.dev")
    made = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}},
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        },
    ]
    for document in made:
        api_server.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    world = World(api_server, fake_nvml(False), tmp_path_factory.mktemp("agent"))
    try:
        world.wait(lambda status: status.get("gpus"), "a first status")
        yield world
    finally:
        world.end()
        api_server.kubectl("delete", "pod", "greedy", "--ignore-not-found", "--force")
        api_server.kubectl("delete", f"gpunode/{NODE}", f"node/{NODE}", "runtimeclass/nvidia", "--ignore-not-found")


def test_the_driver_is_published(world: World) -> None:
    status = world.status()
    assert (status["summary"], status["driverVersion"], status["simulated"]) == ("2 × H200 140Gi", "580.65.06", False)
    assert (status["isolation"], status["capabilities"]["runtimeClass"]) == ("Watched", True)
    assert [(gpu["uuid"], gpu["healthy"]) for gpu in status["gpus"]] == [("GPU-a", True), ("GPU-b", True)]


def test_a_pod_over_its_quota_becomes_a_violation_and_a_stranger_does_not(world: World) -> None:
    grant = RankGrant(0, (GpuGrant("GPU-a", 1024, 100, whole=False),))
    contract = Contract("a", "default", "u", 1, 0, (PodGrant("h", (grant,)),), "command").to_json()
    document = json.loads(json.dumps(POD))
    document["spec"]["containers"][0]["env"] = [{"name": "COTENANT_CONTRACT", "value": contract}]
    world.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    uid = world.cluster.kubectl("get", "pod", "greedy", "-o", "jsonpath={.metadata.uid}")
    world.process_on_host(
        11, f"0::/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/cri-containerd-{'a' * 64}.scope"
    )
    world.process_on_host(12, "0::/user.slice")
    world.show(f"process 0 11 {4 * GIB}", f"process 0 12 {GIB}", recovery=0)
    status = world.wait(lambda status: status["violations"], "a violation")
    (violation,) = status["violations"]
    assert violation | {"since": ""} == {
        "podUID": uid,
        "uuid": "GPU-a",
        "memoryMiB": 4096,
        "quotaMiB": 1024,
        "since": "",
    }
    assert sorted(process["podUID"] for process in status["gpus"][0]["processes"]) == sorted(["", uid])
    world.show(recovery=0)
    world.wait(lambda status: not status["violations"], "the end of the violation")


def test_an_event_of_the_driver_cordons_and_the_administrator_lifts_it(world: World) -> None:
    world.show("xid 1 48")  # no word of recovery: only a hand lifts it
    status = world.wait(lambda status: not status["gpus"][1]["healthy"], "the cordon")
    assert status["gpus"][0]["healthy"]
    assert status["gpus"][1]["health"] == "XID48: double-bit memory error; the GPU needs a reset"
    world.cluster.kubectl("annotate", "gpunode", NODE, "cotenant.dev/uncordon=GPU-b")
    world.wait(lambda status: status["gpus"][1]["healthy"], "the GPU is back")
    world.wait(lambda _: "uncordon" not in annotations(world), "the annotation is gone")


def annotations(world: World) -> str:
    return world.cluster.kubectl("get", "gpunode", NODE, "-o", "jsonpath={.metadata.annotations}")


def test_a_hung_driver_call_lets_the_heartbeat_stand_still(world: World) -> None:
    """Written every 15 s by an agent that sees its GPUs; one that waits for the driver writes nothing."""
    world.show("hang 0 nvmlDeviceGetUtilizationRates 32000", recovery=0)
    stale = world.wait(
        lambda status: time.time() - parse_time(status["heartbeat"]) > 24, "a heartbeat that stands still"
    )
    world.show(recovery=0)
    world.wait(lambda status: status["heartbeat"] > stale["heartbeat"], "a heartbeat after the driver came back")


def test_it_ends_at_once_when_told_to(world: World) -> None:
    assert world.end() == 0
