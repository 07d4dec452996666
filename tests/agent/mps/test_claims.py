"""Claims of shares, from the kubelet's question to the level that the node publishes, with daemons that are played."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cotenant_agent.dra.driver import Driver, DriverFolders
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.enforcement.quota import PodQuota
from cotenant_agent.failures import Failures
from cotenant_agent.gpus.readings import GpuInventory, GpuProcess, GpuSample
from cotenant_agent.mps.configuration import gpu_folder, namespace_name
from cotenant_agent.mps.control_program import ControlProgram
from cotenant_agent.mps.daemon_turns import MpsTurns
from cotenant_agent.mps.keeper import Keeper
from cotenant_agent.mps.namespaces import ComputeNamespaces
from cotenant_agent.reports import node_status, published_limits
from cotenant_agent.reports.node_view import NodeObserver
from tests.agent.dra.gpus import NODE, A, B, FakeResourceApi, claim, result
from tests.agent.dra.test_driver import FakeKubelet
from tests.agent.mps.world import World
from tests.agent.reports.observed import NOW, make_observer

SHARE = result("gpu-a", "20Gi", "405")
GRANT = PodQuota(
    pod_uid="pod-1", namespace="guests", pod="p", quota_mib={"GPU-A": 20_480}, compute_milli={"GPU-A": 405},
    claimed=True,
)  # fmt: skip


class Node:
    """A driver, a keeper that goes its rounds, and an observer that looks at both."""

    def __init__(self, world: World, folder: Path, api: FakeResourceApi) -> None:
        self.world, self.folder = world, folder
        world.tell("gpus", "GPU-A", "GPU-B")
        self.namespaces = ComputeNamespaces(world.root, world.control)
        self.observer = able(make_observer())
        self.turns = MpsTurns(self.namespaces, self.observer, Failures())
        self.observer.no_claims = lambda: ""
        self.namespaces.starting = lambda: True
        self.driver = Driver(NODE, api, DriverFolders(folder / "kubelet", folder / "cdi"), frozenset)
        self.driver.namespaces = self.namespaces
        self.driver.start([A, B])
        self.kubelet = FakeKubelet(folder / "kubelet")

    def edits(self, name: str) -> dict[str, Any]:
        path = self.folder / "cdi" / f"gpu.cotenant.dev-claim_{name}-uid.json"
        found: dict[str, Any] = json.loads(path.read_text())["devices"][0]["containerEdits"]
        return found

    def control(self, uuid: str) -> ControlProgram:
        return ControlProgram(gpu_folder(self.world.root, uuid), self.world.control)

    def status(self, *pids: int, exclusive: bool = True) -> dict[str, Any]:
        """The status after two looks at the daemons, with these processes on the first GPU."""
        processes = tuple(GpuProcess(pid, 100) for pid in pids)
        samples = [GpuSample(uuid="GPU-A", used_mib=0, processes=processes, exclusive=exclusive)]
        for _ in range(2):
            self.namespaces.look()
            view = self.observer.observe(samples, PodsOnNode(grants={"pod-1": GRANT}), NOW)
        return node_status.build(view)


def able(observer: NodeObserver) -> NodeObserver:
    observer.inventory = GpuInventory(simulated=False, gpus=(A, B), driver_version="615.71.09")
    return observer


@pytest.fixture
def start(world: World) -> Iterator[Callable[..., Any]]:
    keeper, stop = Keeper(world.root), threading.Event()

    def rounds() -> None:
        at = 0.0
        while not stop.wait(0.02):
            keeper.turn(at)
            at += 1.0

    thread = threading.Thread(target=rounds)
    thread.start()
    with tempfile.TemporaryDirectory(prefix="dra") as folder:

        @contextmanager
        def node(api: FakeResourceApi) -> Iterator[Node]:
            made = Node(world, Path(folder), api)
            try:
                yield made
            finally:
                made.driver.stop()

        yield node
    stop.set()
    thread.join()
    keeper.stop()


def prepared(node: Node, name: str) -> None:
    """The kubelet asks until it is."""
    deadline = time.monotonic() + 60
    while error := node.kubelet.prepare(name)[f"{name}-uid"].error:
        assert time.monotonic() < deadline, error


def test_a_share_gets_its_namespace_read_only_and_a_whole_gpu_none(start: Any) -> None:
    two = claim("two", result("gpu-a", "10Gi", "100"), result("gpu-b", "10Gi", "100"))
    with start(FakeResourceApi(claim("c", SHARE, pods=("pod-1",)), two)) as node:
        prepared(node, "c")
        pipes = gpu_folder(node.world.root, "GPU-A").namespace("ccuid")
        assert (pipes / "control").exists()
        edits = node.edits("c")
        assert edits["env"][2:] == [
            "COTENANT_MPS_PIPES=/run/cotenant-mps",
            "CUDA_MPS_PIPE_DIRECTORY=/run/cotenant-mps/GPU-A",
        ]
        options = ["ro", "nosuid", "nodev", "bind"]
        assert edits["mounts"] == [
            {"hostPath": str(pipes), "containerPath": "/run/cotenant-mps/GPU-A", "options": options}
        ]
        prepared(node, "two")
        assert node.edits("two")["env"][3] == "CUDA_MPS_PIPE_DIRECTORY=/run/cotenant-mps", "none, before one is chosen"
        targets = [mount["containerPath"] for mount in node.edits("two")["mounts"]]
        assert targets == ["/run/cotenant-mps/GPU-A", "/run/cotenant-mps/GPU-B"]
    whole = claim("whole", result("gpu-b", None, None))
    with start(FakeResourceApi(whole)) as node:
        node.kubelet.unprepare("two")
        prepared(node, "whole")
        assert "mounts" not in node.edits("whole")
        assert not any("MPS" in one for one in node.edits("whole")["env"])


def test_an_agent_that_starts_again_ends_no_client_and_a_daemon_that_starts_again_has_all_namespaces(
    start: Any,
) -> None:
    api = FakeResourceApi(claim("c", SHARE, pods=("pod-1",)), claim("d", result("gpu-a", "20Gi", "200")))
    with start(api) as node:
        prepared(node, "c")
        first = (gpu_folder(node.world.root, "GPU-A").pipes / "state.json").stat().st_ino
    api.down = True
    with start(api) as node:
        assert (gpu_folder(node.world.root, "GPU-A").pipes / "state.json").stat().st_ino == first
        assert node.edits("c")["mounts"]
        api.down = False
        prepared(node, "d")
        expected = {namespace_name(uid) for uid in ("c-uid", "d-uid")} | {"default"}
        assert node.control("GPU-A").namespaces().keys() == expected
        node.control("GPU-A").quit()
        for name in ("c", "d"):
            prepared(node, name)
        assert node.control("GPU-A").namespaces().keys() == expected


def test_the_level_is_claimed_once_the_pod_is_seen_in_its_namespace_and_the_server_is_no_stranger(
    start: Any, world: World
) -> None:
    with start(FakeResourceApi(claim("c", SHARE, pods=("pod-1",)))) as node:
        prepared(node, "c")
        status = node.status()
        assert (status["isolationLevels"]["compute"], status["capabilities"]["mps"]) == ("None", True)
        wanted = {"podUID": "pod-1", "uuid": "GPU-A", "dimension": "Compute", "wanted": 405}
        assert status["limits"] == [wanted | {"state": "Unknown"}]
        world.tell("clients", "1=ccuid", "2=ccuid")
        status = node.status(1, 2, 4711)
        assert status["limits"] == [wanted | {"state": "InForce", "inForce": 400}]
        assert (status["isolationLevels"]["compute"], status["strangers"]) == ("Hard", [])
        again = able(make_observer())
        again.restore_limits(published_limits.read(status), published_limits.read(status, "Compute"))
        again.no_claims, again.mps = node.observer.no_claims, node.turns
        view = again.observe([], PodsOnNode(grants={"pod-1": GRANT}), NOW)
        assert node_status.build(view)["limits"] == status["limits"]
        status = node.status(1, 2, exclusive=False)
        assert (status["limits"], status["isolationLevels"]["compute"]) == ([wanted | {"state": "Unknown"}], "None")


@pytest.mark.parametrize(
    ("clients", "lies", "said"),
    [
        pytest.param(["2=ccuid"], False, "its process 1 computes beside MPS", id="a process that goes around it"),
        pytest.param(
            ["1=ccuid", "2=ccuid"], True, "a share of 405 milli-GPU was given, and MPS lets its clients have 1000",
            id="a read-back that lies",
        ),
    ],
)  # fmt: skip
def test_a_read_back_that_disagrees_lowers_the_node_also_after_a_restart(
    start: Any, world: World, clients: list[str], lies: bool, said: str
) -> None:
    with start(FakeResourceApi(claim("c", SHARE, pods=("pod-1",)))) as node:
        prepared(node, "c")
        world.tell("clients", "1=ccuid", "2=ccuid")
        assert node.status(1, 2)["isolationLevels"]["compute"] == "Hard"
        if lies:
            world.tell("lies")
        world.tell("clients", *clients)
        status = node.status(1, 2)
        (entry,) = [one for one in status["capabilities"]["paths"] if one["path"] == "MPS"]
        assert entry == {
            "path": "MPS", "available": False, "reason": f"ReadBack: pod pod-1 on GPU-A: {said}",
        }  # fmt: skip
        assert (status["isolationLevels"]["compute"], status["capabilities"]["mps"]) == ("None", False)
        read = published_limits.read(status, "Compute")
        assert replace(read, doubts={}) == replace(node.observer._compute, doubts={}, unread={})
