"""Set, read back, publish, judge: the operator's pod through the toolkit's hook and the driver's library to a level.

Only the hook and the library are played. What renders the pod, reads the limit, publishes it and judges is the product.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cotenant.api.conversion.to_core import parse_gpunode
from cotenant.api.resources.placement_status import Isolation
from cotenant.controller.isolation.node_isolation import reported_isolation
from cotenant.controller.isolation.verification import Verification, evidence_of, verified
from cotenant.controller.manifests.worker_pod import pod
from cotenant.controller.settings import Settings
from cotenant_agent.enforcement import memory_limits
from cotenant_agent.enforcement.container_cgroups import ContainerCgroups
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.enforcement.quota import grant_of
from cotenant_agent.gpus.capabilities import detect
from cotenant_agent.gpus.readings import Gpu, GpuInventory, LimitReading
from cotenant_agent.reports import node_status
from cotenant_agent.reports.node_view import NodeObserver
from cotenant_local.runtime.isolation.gpu_memory_hook import MemoryLimitHook
from tests.agent.reports.observed import NOW
from tests.controller.builders import attempt

GIB = 1 << 30
CONTAINER = "a1" * 32
GPUS = [f"gpu {i} GPU-n1-{i}|NVIDIA H100 80GB HBM3|{80 * GIB}|0|{i}" for i in range(3)]
SHARE = 32_768


class Node:
    """A host with a driver, a toolkit and an agent; one pod of two ranks is made on it as the operator renders it."""

    def __init__(self, folder: Path, start: Callable[..., Any]) -> None:
        self.folder = folder
        self.hook = MemoryLimitHook(folder)
        self.nvml = start("driver 0 615.71.09", *GPUS)
        inventory = self.nvml.ask("inventory")
        (folder / "sys/fs/cgroup").mkdir(parents=True)
        (folder / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory dmem\n")
        gpus = tuple(Gpu(**one | {"peers": tuple(one["peers"])}) for one in inventory.pop("gpus"))
        found = detect(folder, runtime_class=True, limits_readable=True, toolkit="1.20.1")
        self.observer = NodeObserver(
            GpuInventory(gpus=gpus, **inventory), found, owner=lambda pid: pytest.fail(str(pid)), attributing=True
        )
        self.cgroups = ContainerCgroups(folder / "sys/fs/cgroup")

    def report(self, running: dict[str, Any] | None = None) -> dict[str, Any]:
        """One poll of the agent, and the status that it publishes."""
        grants = {}
        if running is not None and (grant := grant_of(running)) is not None:
            grants[grant.pod_uid] = grant
        asked = memory_limits.asked(grants.values(), self.cgroups.leaf)
        readings = [(one, self._read(one.gpu_uuid, one.cgroup)) for one in asked]
        return node_status.build(self.observer.observe((), PodsOnNode(grants=grants), NOW, readings))

    def _read(self, uuid: str, cgroup: str) -> LimitReading | None:
        _, found = self.nvml.ask(f"limit {uuid} {cgroup}")
        return None if found is None else LimitReading(**found)


def judged(status: dict[str, Any], uid: str = "u") -> Verification:
    document = {"apiVersion": "cotenant.dev/v1beta1", "kind": "GPUNode", "metadata": {"name": "n1"}, "status": status}
    node = parse_gpunode(document)
    return verified(attempt().placement.nodes[0], reported_isolation(node, {}), evidence_of(node, uid, {}))


def made_on(node: Node) -> dict[str, Any]:
    """The pod for what the node has published, through the runtime's hook: as the API server shows it when it runs."""
    document = {"apiVersion": "cotenant.dev/v1beta1", "kind": "GPUNode", "metadata": {"name": "n1"}}
    isolation = reported_isolation(parse_gpunode(document | {"status": node.report()}), {})
    rendered = pod(attempt(), 0, Settings(), isolation).pod
    (container,) = rendered["spec"]["containers"]
    env = {one["name"]: one.get("value", "") for one in container["env"]}
    node.hook.create_runtime(env, "u", CONTAINER)
    state = [{"name": container["name"], "containerID": f"containerd://{CONTAINER}", "state": {"running": {}}}]
    return rendered | {"metadata": rendered["metadata"] | {"uid": "u"}, "status": {"containerStatuses": state}}


@pytest.fixture
def node(tmp_path: Path, nvml: Callable[..., Any]) -> Node:
    return Node(tmp_path, nvml)


def test_a_limit_in_force_is_hard_and_stays_so_until_the_container_has_ended(node: Node) -> None:
    running = made_on(node)
    before, during = judged(node.report()), judged(node.report(running))
    assert (before.levels.memory, during.levels.memory, during.levels.compute) == (
        Isolation.WATCHED,
        Isolation.HARD,
        Isolation.NONE,
    )
    node.hook.post_stop(CONTAINER)
    assert judged(node.report(running)).levels.memory is Isolation.HARD


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("missing", "GPU GPU-n1-0 of node n1: the driver has no memory limit for this pod"),
        ("limit 65536", "GPU GPU-n1-0 of node n1: the driver limits this pod to 65536 MiB, its share is 32768 MiB"),
        ("limit 16384", "GPU GPU-n1-0 of node n1: the driver limits this pod to 16384 MiB, its share is 32768 MiB"),
        ("other-gpu", "GPU GPU-n1-0 of node n1: the driver has no memory limit for this pod"),
    ],
)
def test_a_hook_that_did_something_else_is_a_mismatch_and_lowers_the_node(node: Node, fault: str, says: str) -> None:
    (node.folder / "faults").write_text(fault)
    running = made_on(node)
    first = judged(node.report(running))
    assert (first.mismatch, first.levels.memory) == ("", Isolation.WATCHED)
    status = node.report(running)
    assert judged(status).mismatch.startswith(says)
    (path,) = (one for one in status["capabilities"]["paths"] if one["path"] == "MemoryLimit")
    assert (path["available"], path["reason"][:10], status["isolation"]) == (False, "ReadBack: ", "Watched")
    (node.folder / "faults").unlink()
    again = made_on(node)["spec"]["containers"][0]["env"]
    assert not [one for one in again if one["name"].startswith("NVIDIA_GPU_MEMORY")]


def test_a_driver_whose_own_count_is_beyond_its_limit_is_not_believed(node: Node) -> None:
    running = made_on(node)
    assert judged(node.report(running)).levels.memory is Isolation.HARD
    state = (node.folder / "state").read_text()
    held = f" {SHARE << 20} "
    (node.folder / "state").write_text(state.replace(f"{held}0", f"{held}{(SHARE + 999) << 20}"))
    node.report(running)
    status = node.report(running)
    assert (status["isolation"], status["capabilities"]["paths"][-1]["available"]) == ("Watched", False)


def test_a_node_that_can_no_longer_read_back_lowers_what_runs(node: Node) -> None:
    running = made_on(node)
    assert judged(node.report(running)).levels.memory is Isolation.HARD
    node.observer.capabilities = replace(node.observer.capabilities, limits_readable=False)
    with (node.folder / "state").open("a") as state:
        state.write("".join(f"fail {i} nvmlDeviceGetMemoryLimits_v1 4\n" for i in range(3)))
    node.report(running)
    found = judged(node.report(running))
    assert (found.mismatch, found.levels.memory) == ("", Isolation.WATCHED)


def test_reservations_that_the_driver_never_takes_back_stay_small(node: Node) -> None:
    for _ in range(20):
        made_on(node)
        node.hook.post_stop(CONTAINER)
    lines = (node.folder / "state").read_text().splitlines()
    root = node.folder / "sys/fs/cgroup/kubepods"
    assert [line for line in lines if f" {root} " in line] == [f"limit {i} {root} {20 << 20} max 0" for i in range(2)]
