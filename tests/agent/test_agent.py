"""The agent's turns against a cluster that can fail: what is written when, and what is never written."""

import copy
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from cotenant import __version__
from cotenant.api.scalars.taints import TOLERATES_ALL
from cotenant_agent.agent import Agent, slow_gpus, with_class_label
from cotenant_agent.enforcement.attribution import FOREIGN
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.enforcement.quota import PodQuota
from cotenant_agent.failures import Step
from cotenant_agent.gpus.capabilities import Capabilities
from cotenant_agent.gpus.readings import Gpu, GpuInventory, GpuSample, XidEvent
from cotenant_agent.gpus.sampler import GpuPoll
from cotenant_agent.probes import LIVE_AGE_S, sample_age_s
from cotenant_agent.reports.gpunode_client import GPUNodeClient
from cotenant_agent.reports.node_view import NodeObserver
from cotenant_agent.reports.writers import Writer

START = 1_700_000_000.0
GPU = Gpu(uuid="GPU-a", index=0, gpu_class="H100", memory_mib=81920)


READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


class FakeCluster(GPUNodeClient):
    """The agent's Cluster, in memory. `failing` is raised by every call as long as it is set."""

    def __init__(self) -> None:
        self.failing: Exception | None = None
        self.labels: dict[str, str] = {}
        self.cordoned = False
        self.taints: list[dict[str, str]] = []
        self.there: dict[str, Any] = {"metadata": {}}
        self.patches: list[Mapping[str, Any]] = []
        self.made = 0
        self.agents = 1
        self.bound: PodsOnNode | None = PodsOnNode()

    def _answer(self) -> dict[str, Any]:
        if self.failing is not None:
            raise self.failing
        return self.there

    def node(self) -> dict[str, Any]:
        self._answer()
        spec = {"unschedulable": self.cordoned, "taints": self.taints}
        return {"metadata": {"uid": "n", "labels": self.labels}, "spec": spec} | READY

    def runtime_class_exists(self, name: str) -> bool:
        return name == "nvidia"

    def gpu_nodes(self) -> int:
        self._answer()
        return self.agents

    def ensure_gpu_node(self, node: Mapping[str, Any]) -> dict[str, Any]:
        self.made += 1
        return self._answer()

    def patch_status(self, patch: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._answer()
        self.patches.append(patch["status"])
        return answer

    def remove_annotation(self, key: str) -> None:
        del self.there["metadata"]["annotations"][key]

    def pods(self) -> PodsOnNode | None:
        return self.bound


class World:
    """An agent, its cluster and a clock."""

    def __init__(self, tolerations: Collection[Mapping[str, Any]] = TOLERATES_ALL) -> None:
        self.cluster = FakeCluster()
        self.inventory = GpuInventory(simulated=False, gpus=(GPU,))
        observer = NodeObserver(
            self.inventory, Capabilities(runtime_class=True), owner=lambda _: FOREIGN, attributing=True,
            running=lambda: self.running,
        )  # fmt: skip
        self.running: frozenset[str] = frozenset()
        self.agent = Agent(self.cluster, observer, booted_at=START - 3600, tolerations=tolerations)
        self.now = START
        self.taken: GpuPoll | None = None

    def turn(self, *xids: XidEvent, look: bool = True, after: float = 1.0) -> list[Mapping[str, Any]]:
        """One turn; returns what it wrote."""
        self.now += after
        if look:
            self.taken = GpuPoll(self.inventory, (GpuSample(uuid="GPU-a", used_mib=1),), self.now, 0.01)
        before = len(self.cluster.patches)
        self.agent.reconcile(self.taken, xids, self.now)
        return self.cluster.patches[before:]

    def health(self) -> str:
        return str([p["gpus"][0]["health"] for p in self.cluster.patches if "gpus" in p][-1])


def test_the_first_look_is_written_whole_and_then_only_the_heartbeat() -> None:
    world = World()
    assert world.turn()[0]["gpus"][0]["uuid"] == "GPU-a"
    assert [world.turn() for _ in range(14)] == [[]] * 14
    assert world.turn() == [{"heartbeat": "2023-11-14T22:13:36Z"}]
    assert world.cluster.made == 1


class SharedGPUNode(FakeCluster):
    """A GPUNode that several agents write, with versions as the API server has them."""

    def ensure_gpu_node(self, node: Mapping[str, Any]) -> dict[str, Any]:
        super().ensure_gpu_node(node)
        self.there["metadata"].setdefault("resourceVersion", "1")
        return copy.deepcopy(self.there)

    def patch_status(self, patch: Mapping[str, Any]) -> dict[str, Any]:
        version = self.there["metadata"]["resourceVersion"]
        if patch.get("metadata", {}).get("resourceVersion", version) != version:
            raise ApiException(status=409)
        super().patch_status(patch)
        self.there["status"] = {**self.there.get("status", {}), **patch["status"]}
        self.there["metadata"]["resourceVersion"] = str(int(version) + 1)
        return copy.deepcopy(self.there)


def test_in_a_large_cluster_heartbeats_are_rarer_and_the_status_says_how_rare() -> None:
    world = World()
    world.cluster.agents = 5000
    (first,) = world.turn()
    written = [world.now for _ in range(120) if world.turn()]
    assert first["heartbeatSeconds"] == 50
    assert [later - START for later in written] == [51.0, 101.0]


def agent_on(cluster: FakeCluster, source: str, instance: str) -> World:
    world = World()
    world.cluster = cluster
    observer = NodeObserver(world.inventory, Capabilities(), owner=lambda _: FOREIGN, attributing=True)
    world.agent = Agent(cluster, observer, booted_at=START - 3600, writer=Writer(source, instance))
    return world


@pytest.mark.parametrize("together", [True, False], ids=["that start at once", "one after the other"])
def test_two_agents_of_different_devices_do_not_overwrite_each_other(together: bool) -> None:
    cluster = SharedGPUNode()
    first, second = agent_on(cluster, "nvidia", "a"), agent_on(cluster, "amd.com/gpu", "b")
    if together:  # both have read a GPUNode of nobody
        second.agent._ensure_gpu_node(START)
    wrote = [(bool(first.turn()), bool(second.turn())) for _ in range(60)]
    assert any(one for one, _ in wrote)
    assert not any(other for _, other in wrote)
    assert cluster.there["status"]["writer"] == {"source": "nvidia", "instance": "a", "version": __version__}
    assert second.agent.refused.startswith("an agent for nvidia (a) writes the GPUNode of this node")
    assert any(second.turn() for _ in range(60)), "the first one has gone"
    assert (cluster.there["status"]["writer"]["source"], second.agent.refused) == ("amd.com/gpu", "")


def test_the_next_version_of_an_agent_takes_the_node_over_at_once() -> None:
    cluster = SharedGPUNode()
    first, second = agent_on(cluster, "nvidia", "a"), agent_on(cluster, "nvidia", "b")
    assert first.turn()
    assert second.turn()
    for _ in range(60):
        second.turn()
        assert not first.turn()
    assert first.agent.refused == "another agent for nvidia (b) writes the GPUNode of this node since"


def test_an_annotation_of_somebody_costs_one_look_and_a_second() -> None:
    cluster = SharedGPUNode()
    world = agent_on(cluster, "nvidia", "a")
    world.turn()
    cluster.there["metadata"]["resourceVersion"] = "99"
    beats = sum(bool(world.turn()) for _ in range(48))
    assert (beats, cluster.made, world.agent.refused) == (3, 2, "")


def test_a_node_that_is_cordoned_reads_so_within_a_minute() -> None:
    world = World()
    assert world.turn()[0]["node"] == "Ready"
    world.cluster.cordoned = True
    assert [one["node"] for _ in range(60) for one in world.turn() if "node" in one] == ["Cordoned"]
    world.cluster.failing = OSError("no route")
    world.turn(after=60.0)
    world.cluster.failing, world.cluster.cordoned = None, False
    assert [one["node"] for _ in range(60) for one in world.turn() if "node" in one] == ["Ready"]


def test_a_node_whose_taint_keeps_jobs_away_reads_so_if_the_agent_knows_what_they_tolerate() -> None:
    shown = []
    for tolerations in ([], [{"key": "team"}], TOLERATES_ALL):
        world = World(tolerations)
        world.cluster.taints = [{"key": "team", "effect": "NoSchedule"}]
        shown.append(world.turn()[0]["node"])
    assert shown == ["Tainted", "Ready", "Ready"]


def test_nothing_is_written_before_the_first_look() -> None:
    world = World()
    assert world.turn(look=False) == []
    assert world.cluster.made == 0


def test_a_hung_driver_makes_the_heartbeat_stale_instead_of_faking_it() -> None:
    world = World()
    world.turn()
    assert [world.turn(look=False, after=10.0) for _ in range(60)] == [[]] * 60
    assert sample_age_s(world.agent, START, world.now) > LIVE_AGE_S
    assert world.turn()[0]["heartbeat"] == "2023-11-14T22:23:22Z"


def test_a_hung_driver_is_named_in_a_condition_until_it_answers() -> None:
    world = World()
    world.turn()
    written = [patch for _ in range(200) for patch in world.turn(look=False)]
    ((condition,),) = [patch["conditions"] for patch in written]
    assert (condition["type"], condition["reason"]) == ("GPUsUnreadable", "DriverHangs")
    assert (written[0]["heartbeat"], condition["lastTransitionTime"]) == ("2023-11-14T22:13:21Z",) * 2
    assert world.turn()[0]["conditions"] == []


def test_an_event_is_written_at_once_even_while_no_look_comes() -> None:
    world = World()
    world.turn()
    assert world.turn(XidEvent("GPU-a", 79, START), look=False)[0]["gpus"][0]["healthy"] is False
    assert world.health().startswith("XID79: ")


@pytest.mark.parametrize("error", [ApiException(status=500), OSError("no route")], ids=["500", "unreachable"])
def test_a_failed_write_is_repeated_after_a_pause(error: Exception) -> None:
    world = World()
    world.turn()
    world.cluster.failing = error
    assert world.turn(XidEvent("GPU-a", 48, START)) == []
    world.cluster.failing = None
    assert [len(world.turn()) for _ in range(5)] == [0, 0, 0, 0, 1]
    assert world.health().startswith("XID48: ")


def test_a_clock_that_is_set_back_delays_no_heartbeat_and_no_next_try() -> None:
    world = World()
    world.turn()
    assert [patch["heartbeat"] for patch in world.turn(after=-3600.0)] == ["2023-11-14T21:13:21Z"]
    assert [len(world.turn()) for _ in range(15)] == [*[0] * 14, 1]
    world.cluster.failing = OSError("no route")
    assert world.turn(XidEvent("GPU-a", 48, START)) == []
    world.cluster.failing = None
    assert len(world.turn(after=-3600.0)) == 1


def test_a_gpunode_that_was_deleted_comes_back_with_its_whole_status() -> None:
    world = World()
    world.turn()
    world.cluster.failing = ApiException(status=404)
    assert world.turn(after=15.0) == []
    world.cluster.failing = None
    assert world.turn(after=15.0)[0].keys() >= {"gpus", "capabilities", "isolation", "simulated"}
    assert world.cluster.made == 2


@pytest.mark.parametrize(
    ("heartbeat", "want"),
    [("2023-11-14T22:00:00Z", "XID79: off the bus"), ("2023-11-14T21:00:00Z", "")],
    ids=["the agent restarted", "the node was rebooted since"],
)
def test_a_new_agent_remembers_what_the_last_one_cordoned(heartbeat: str, want: str) -> None:
    world = World()
    world.cluster.there["status"] = {
        "heartbeat": heartbeat,
        "gpus": [{"uuid": "GPU-a", "health": "XID79: off the bus"}],
    }
    world.turn()
    assert world.health() == want


@pytest.mark.parametrize("wish", ["GPU-a", "all", "GPU-z, GPU-a"])
def test_the_administrators_annotation_lifts_a_cordon_and_is_removed(wish: str) -> None:
    world = World()
    world.turn(XidEvent("GPU-a", 79, START))
    world.cluster.there["metadata"]["annotations"] = {"cotenant.dev/uncordon": wish}
    world.turn(after=15.0)
    world.turn()
    assert world.health() == ""
    assert world.cluster.there["metadata"]["annotations"] == {}


def test_an_annotation_that_names_no_gpu_here_lifts_nothing() -> None:
    world = World()
    world.turn(XidEvent("GPU-a", 79, START))
    world.cluster.there["metadata"]["annotations"] = {"cotenant.dev/uncordon": "GPU-z"}
    world.turn(after=15.0)
    world.turn()
    assert world.health().startswith("XID79")


SLOW = {"suspect.cotenant.dev/GPU-a": "red/train: rank 1 needed 80.0 ms", "other.example/GPU-a": "no matter"}


def test_a_gpu_that_a_job_found_slow_says_so_and_goes_on_working() -> None:
    world = World()
    world.turn()
    world.cluster.there["metadata"]["annotations"] = dict(SLOW)
    world.turn(after=15.0)
    (written,) = world.turn()
    assert [(gpu["healthy"], gpu["health"]) for gpu in written["gpus"]] == [
        (True, "Slow: red/train: rank 1 needed 80.0 ms")
    ]


def test_a_new_agent_knows_what_a_job_found_before_it_came() -> None:
    world = World()
    world.cluster.there["metadata"]["annotations"] = dict(SLOW)
    world.turn()
    assert world.health() == "Slow: red/train: rank 1 needed 80.0 ms"


def test_the_administrators_annotation_takes_a_finding_away() -> None:
    world = World()
    noted = {"slow-reports.cotenant.dev/GPU-a": "red/red=2026-11-22T14:00:00Z"}
    world.cluster.there["metadata"]["annotations"] = {**SLOW, **noted, "cotenant.dev/uncordon": "GPU-a"}
    world.turn()
    world.turn()
    assert world.health() == ""
    assert world.cluster.there["metadata"]["annotations"] == {"other.example/GPU-a": "no matter"}


def test_the_nodes_label_names_the_class() -> None:
    world = World()
    world.cluster.labels = {"cotenant.dev/gpu-class": "H100-80GB"}
    assert world.turn()[0]["gpus"][0]["class"] == "H100-80GB"


GRANT = PodQuota(pod_uid="pod-1", namespace="red", pod="a-1-0", quota_mib={"GPU-a": 1000})


def test_a_pod_that_is_deleted_by_force_is_a_holder_until_its_processes_are_gone_also_for_the_next_agent() -> None:
    world = World()
    world.cluster.bound = PodsOnNode(grants={"pod-1": GRANT})
    world.turn()
    world.cluster.bound, world.running = PodsOnNode(), frozenset({"pod-1"})
    (left,) = world.turn()
    (holder,) = left["holders"]
    assert (holder["podUID"], holder["evidence"], holder["gpus"][0]["uuid"]) == ("pod-1", "Processes", "GPU-a")
    assert [world.turn() for _ in range(5)] == [[]] * 5
    successor = World()
    successor.cluster.there = {"metadata": {}, "status": dict(left)}
    successor.cluster.bound = None
    assert "holders" not in successor.turn()[0]
    successor.cluster.bound, successor.running = PodsOnNode(), frozenset({"pod-1"})
    assert successor.turn()[0]["holders"] == [holder]
    successor.running = frozenset()
    assert [patch["holders"] for patch in successor.turn()] == [[]]


def test_a_turn_that_fails_is_counted_and_the_next_one_is_taken() -> None:
    world = World()
    world.turn()
    world.cluster.there = {"metadata": {"annotations": {"cotenant.dev/uncordon": 7}}}
    world.now += 100.0
    assert world.taken is not None
    for _ in range(2):
        world.taken = replace(world.taken, taken_at=world.now)
        world.agent.turn(world.taken, (), world.now)
        world.cluster.there, world.now = {"metadata": {}}, world.now + 100.0
    assert (world.agent.contained.counts()[Step.TURN], len(world.cluster.patches)) == (1, 3)


def test_a_finding_is_plain_and_short_whoever_wrote_the_annotation() -> None:
    found = slow_gpus({"suspect.cotenant.dev/GPU-a": "\x1b[2J" + "x" * 1000})
    assert found == {"GPU-a": "\\x1b[2J" + "x" * 292 + "…"}


def test_the_label_of_a_node_names_the_gpu_of_an_instance_too() -> None:
    part = replace(GPU, uuid="MIG-1", gpu_class="H100-1g.10gb", parent="GPU-b", profile="1g.10gb")
    labelled = with_class_label(GpuInventory(simulated=False, gpus=(GPU, part)), "H100-80GB")
    assert [gpu.gpu_class for gpu in labelled.gpus] == ["H100-80GB", "H100-80GB-1g.10gb"]


def test_a_level_that_fell_while_no_agent_ran_is_named_and_outlives_the_next_restart() -> None:
    world = World()
    levels = {"memory": "Hard", "compute": "None"}
    world.cluster.there["status"] = {"heartbeat": "2023-11-14T22:00:00Z", "isolationLevels": levels}
    (fell,) = world.turn()[0]["conditions"]
    assert (fell["type"], fell["status"], fell["reason"]) == ("MemoryIsolationLowered", "True", "WasHard")
    again = World()
    again.cluster.there["status"] = {"isolationLevels": {"memory": "Watched"}, "conditions": [fell]}
    assert again.turn(after=60.0)[0]["conditions"] == [fell]


def test_a_gpu_that_the_driver_does_not_list_is_named_in_a_condition_until_it_is_listed() -> None:
    world = World()
    world.turn()
    listed = world.inventory
    world.inventory = replace(listed, unreadable=("GPU 1: Unknown Error",))
    (written,) = world.turn(after=15.0)
    (condition,) = written["conditions"]
    assert (condition["type"], condition["reason"]) == ("GPUsUnreadable", "SomeNotListed")
    assert (condition["message"][-21:], written["health"]) == (" GPU 1: Unknown Error", "1 more cannot be listed")
    world.inventory = listed
    (written,) = world.turn(after=15.0)
    assert (written["conditions"], written["health"]) == ([], "healthy")


def test_an_administrator_takes_a_gpu_out_and_gives_it_back() -> None:
    world = World()
    world.turn()
    annotations = world.cluster.there["metadata"]["annotations"] = {
        "cotenant.dev/drain": '{"GPU-a": "its fan is replaced"}'
    }
    world.turn(after=15.0)
    (written,) = world.turn()
    (gpu,) = written["gpus"]
    assert (gpu["healthy"], gpu["health"], gpu["drain"], annotations) == (
        False, "Drained: its fan is replaced", True, {}
    )  # fmt: skip
    annotations["cotenant.dev/uncordon"] = "GPU-a"
    world.turn(after=15.0)
    world.turn()
    assert (world.health(), annotations) == ("", {})
