"""Nodes as the core is told of them, while agents, drivers and GPUNodes come and go. Pure: time is a number."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import names
from cotenant.api.conversion.nodes import NodeFacts, to_node
from cotenant.api.conversion.placements import from_placement
from cotenant.api.resources.gpunodes import GPUNode
from cotenant.api.resources.placement_status import Isolation
from cotenant.controller.client.kube import GPU_NODES, NODES, PODS, TRAINING_JOBS
from cotenant.controller.cluster.nodes import cluster_nodes as nodes
from cotenant.controller.cluster.nodes.missing_gpus import KEPT_S
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.isolation.rendering import rendered
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import GrantedGpu, Node, NodePlacement, Placement, RankPlacement
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.state.cluster_state import ClusterState
from tests.controller.builders import T0, admitted, job_document, new_cluster, placement_on

Gpus = dict[str, tuple[bool, float | None]]
HEALTHY = (True, None)


class Cluster:
    """Documents of nodes, each newer than the one before."""

    def __init__(self) -> None:
        self.observed = new_cluster()
        self._version = 0

    def node(self, name: str, *, gone: bool = False, uid: str = "") -> None:
        document = self._document(name, uid or "node") | {
            "status": {
                "allocatable": {"cpu": "8", "memory": "16Gi"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        self.observed.cache.put(NODES, document, gone)

    def agent(self, name: str, *uuids: str, at: float | None = T0, gone: bool = False) -> None:
        listed = [{"uuid": uuid, "index": i, "class": "H100", "memoryMiB": 81920} for i, uuid in enumerate(uuids)]
        document = self._document(name, "gpunode") | {
            "apiVersion": names.API_VERSION,
            "kind": "GPUNode",
            "status": {"heartbeat": at, "gpus": listed, "simulated": True},
        }
        self.observed.cache.put(GPU_NODES, document, gone)

    def gpus(self, now: float) -> dict[str, Gpus]:
        """Node → UUID → (healthy, unseen since)."""
        self.observed.sync(now)
        return {
            node.name: {gpu.uuid: (gpu.healthy, gpu.missing_since) for gpu in node.gpus}
            for node in self.observed.snapshot(now).nodes
        }

    def _document(self, name: str, kind: str) -> dict[str, Any]:
        self._version += 1
        return {"metadata": {"name": name, "uid": f"{kind}-{name}", "resourceVersion": str(self._version)}}


def running() -> Cluster:
    cluster = Cluster()
    cluster.node("n1")
    cluster.agent("n1", "a", "b")
    assert cluster.gpus(T0) == {"n1": {"a": HEALTHY, "b": HEALTHY}}
    return cluster


def test_an_agent_that_lists_no_gpus_for_a_moment_changes_nothing_for_good() -> None:
    cluster = running()
    cluster.agent("n1", at=T0 + 10)
    hidden = cluster.gpus(T0 + 10)
    later = cluster.gpus(T0 + 30)
    cluster.agent("n1", "a", "b", at=T0 + 40)
    assert hidden == later == {"n1": {"a": (False, T0 + 10), "b": (False, T0 + 10)}}
    assert cluster.gpus(T0 + 40) == {"n1": {"a": HEALTHY, "b": HEALTHY}}


def test_a_gpunode_that_somebody_deletes_takes_its_node_out_and_leaves_its_gpus_in_the_books() -> None:
    cluster = running()
    cluster.agent("n1", gone=True)
    assert cluster.gpus(T0 + 10) == {"n1": {"a": (False, T0 + 10), "b": (False, T0 + 10)}}
    assert [node.ready for node in cluster.observed.snapshot(T0 + 10).nodes] == [False]


def test_a_gpu_that_does_not_come_back_is_forgotten_in_the_end() -> None:
    cluster = running()
    cluster.agent("n1", "a", at=T0 + 10)
    assert cluster.gpus(T0 + 10) == {"n1": {"a": HEALTHY, "b": (False, T0 + 10)}}
    assert cluster.gpus(T0 + 10 + KEPT_S) == {"n1": {"a": HEALTHY}}


def test_a_node_whose_gpunode_stays_away_is_forgotten_in_the_end() -> None:
    cluster = running()
    cluster.agent("n1", gone=True)
    cluster.gpus(T0 + 10)
    assert cluster.gpus(T0 + 10 + KEPT_S) == {}


def test_a_node_that_is_gone_leaves_its_gpus_in_the_books_until_whoever_holds_them_has_left() -> None:
    cluster = running()
    cluster.node("n1", gone=True)
    assert cluster.gpus(T0 + 1) == {"n1": {"a": (False, T0 + 1), "b": (False, T0 + 1)}}
    assert [(node.ready, node.deleted) for node in cluster.observed.snapshot(T0 + 1).nodes] == [(False, True)]
    cluster.agent("n1", gone=True)  # which Kubernetes removes with the Node
    assert cluster.gpus(T0 + 1 + KEPT_S) == {}


def test_a_node_that_is_made_again_is_what_its_agent_says() -> None:
    cluster = running()
    cluster.node("n1", gone=True)
    cluster.gpus(T0 + 1)
    cluster.node("n1", uid="again")
    cluster.agent("n1", "a", "b", at=T0 + 20)
    assert cluster.gpus(T0 + 20) == {"n1": {"a": HEALTHY, "b": HEALTHY}}
    assert [(node.ready, node.deleted) for node in cluster.observed.snapshot(T0 + 20).nodes] == [(True, False)]


def test_a_gpu_that_another_node_lists_now_is_not_kept_where_it_was() -> None:
    cluster = running()
    cluster.agent("n1", gone=True)
    cluster.gpus(T0 + 10)
    cluster.node("renamed")
    cluster.agent("renamed", "a", "b", at=T0 + 20)
    cluster.gpus(T0 + 20)
    assert cluster.gpus(T0 + 30) == {"renamed": {"a": HEALTHY, "b": HEALTHY}}


def test_a_new_leader_has_just_begun_to_look() -> None:
    cluster = running()
    cluster.observed.view.restore(T0 + 500)
    assert cluster.observed.snapshot(T0 + 510).watched_since == T0 + 500


def test_what_ranks_see_is_not_held_against_a_node_whose_agent_says_nothing() -> None:
    placement = Placement(nodes=(NodePlacement(node="n1", ranks=(RankPlacement(rank=0, gpus=()),)),))
    cluster = running()
    seen_by_ranks = {"0": ["somebody else's"]}
    wrong = cluster.observed.view.nodes.verify_isolation(placement, seen=seen_by_ranks).mismatch
    assert "sees somebody else's" in wrong
    cluster.agent("n1", gone=True)
    assert not cluster.observed.view.nodes.verify_isolation(placement, seen=seen_by_ranks).mismatch


def test_a_node_whose_agent_has_no_heartbeat_any_more_is_not_ready() -> None:
    cluster = running()
    cluster.agent("n1", "a", "b", at=None)
    cluster.observed.sync(T0 + 1)
    assert [node.ready for node in cluster.observed.snapshot(T0 + 1).nodes] == [False]


def test_a_node_without_an_agent_is_taken_for_one_with_real_gpus() -> None:
    nodes = running().observed.view.nodes
    found = [nodes.verify_isolation(placement_on((node, 1))).levels.memory for node in ("elsewhere", "n1")]
    assert found == [Isolation.COOPERATIVE, Isolation.NONE]


def test_a_node_that_breaks_its_conversion_takes_nothing_new_and_the_others_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.node(name)
        cluster.agent(name, f"GPU-{name}")
    cluster.gpus(T0)
    real = to_node

    def convert(agent: GPUNode, facts: NodeFacts, **words: Any) -> Node:
        if facts.name != "n2":
            raise OverflowError("a heartbeat beyond all time")
        return real(agent, facts, **words)

    monkeypatch.setattr(nodes, "to_node", convert)
    for name in ("n1", "n2", "n3"):
        cluster.node(name)
        cluster.agent(name, f"GPU-{name}")
    cluster.observed.sync(T0)
    ready = {node.name: node.ready for node in cluster.observed.snapshot(T0).nodes}
    assert (ready, sorted(cluster.observed.cache.unreadable)) == (
        {"n1": False, "n2": True},
        [("gpunodes", "n1"), ("gpunodes", "n3")],
    )


def test_a_gpu_that_two_nodes_list_is_handed_out_by_neither_and_both_are_named() -> None:
    cluster = running()
    cluster.node("n2")
    cluster.agent("n2", "b", "c")
    assert cluster.gpus(T0 + 1) == {"n1": {"a": HEALTHY, "b": (False, None)}, "n2": {"b": (False, None), "c": HEALTHY}}
    assert cluster.observed.view.nodes.disputes == {
        "n1": {"b": "GPU b is listed by nodes n1 and n2 at once"},
        "n2": {"b": "GPU b is listed by nodes n2 and n1 at once"},
    }
    cluster.agent("n2", "c", at=T0 + 2)
    cluster.gpus(T0 + 2)
    assert cluster.gpus(T0 + 2)["n1"] == {"a": HEALTHY, "b": HEALTHY}
    assert cluster.observed.view.nodes.disputes == {}


def test_jobs_that_run_on_such_a_gpu_stay_on_both_nodes() -> None:
    cluster = running()
    cluster.node("n2")
    cluster.agent("n2", "b")
    for name, where in (("one", "n1"), ("two", "n2")):
        grant = GrantedGpu(uuid="b", memory_mib=81_920, compute_milli=1000)
        placement = Placement(nodes=(NodePlacement(node=where, ranks=(RankPlacement(rank=0, gpus=(grant,)),)),))
        status = admitted(Phase.STARTING, (where, 1)).model_copy(
            update={"placement": from_placement(placement, admitted_at=T0, isolation=Isolation.NONE)}
        )
        document = job_document(name, status=status.to_document(), workers=1, gpu={"count": 1})
        document["metadata"] |= {"uid": name}
        cluster.observed.cache.put(TRAINING_JOBS, document)
    cluster.gpus(T0 + 1)
    view, snapshot = cluster.observed.view, cluster.observed.snapshot(T0 + 1)
    assert [view.core_jobs.placement_error(record, T0 + 1) for record in cluster.observed.cache.jobs.values()] == [
        None,
        None,
    ]
    assert snapshot.accounting is not None
    assert snapshot.accounting.ledger.free_compute.min() >= 0
    assert not schedule(snapshot, Settings().policy).actions


def test_a_heartbeat_in_the_future_does_not_keep_a_node_ready_without_an_agent() -> None:
    cluster = running()
    cluster.agent("n1", "a", "b", at=T0 + 10**9)
    ready = []
    for now in (T0 + 5, T0 + 65, T0 + 66):
        cluster.gpus(now)
        ready.append([node.ready for node in cluster.observed.snapshot(now).nodes])
    assert ready == [[True], [True], [False]]


def test_a_share_costs_its_larger_dimension_and_on_a_gpu_that_nobody_knows_its_compute() -> None:
    """60 % of the memory of a GPU with 80 GiB, and 40 % of its compute."""
    cluster, placement = Cluster(), placement_on(("n1", 2), ("n2", 1), memory_mib=49_152)
    seen = cluster.observed.view.nodes
    assert seen.held_milli(placement) == 3 * 400

    cluster.node("n1")
    cluster.agent("n1", "GPU-n1-0", "GPU-n1-1")
    cluster.observed.sync(T0)

    assert seen.held_milli(placement) == 2 * 600 + 400


def test_only_the_gpus_of_a_placement_that_their_own_node_wants_drained_are_sick() -> None:
    cluster = running()
    document = {"uuid": "GPU-n1-0", "index": 0, "class": "H100", "memoryMiB": 9, "healthy": False, "health": "XID48: x"}
    gpus = [document | {"drain": True}, document | {"uuid": "GPU-n1-1", "drain": False}]
    status = {"gpus": [*gpus, document | {"uuid": "GPU-n2-0", "drain": True}]}
    metadata = {"name": "n1", "uid": "agent-n1", "resourceVersion": "99"}
    cluster.observed.cache.put(
        GPU_NODES,
        {"apiVersion": "cotenant.dev/v1beta1", "kind": "GPUNode", "metadata": metadata, "status": status},
    )
    sick = cluster.observed.view.nodes.sick_gpus(placement_on(("n1", 2), ("n2", 1)))
    assert sick == {"GPU-n1-0": "XID48: x"}


def test_the_gpus_of_a_node_whose_driver_is_exchanged_are_left_by_their_jobs_alone() -> None:
    cluster = running()
    labelled = cluster._document("n1", "node") | {
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    labelled["metadata"]["labels"] = {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}
    cluster.observed.cache.put(NODES, labelled)
    sick = cluster.observed.view.nodes.sick_gpus(placement_on(("n1", 1), ("n2", 1)))
    assert sick == {
        "GPU-n1-0": "Drained: the GPU Operator exchanges its driver"
        " (nvidia.com/gpu-driver-upgrade-state=drain-required)"
    }


@pytest.mark.parametrize(
    ("ready", "says"), [("True", "taint company/reserved"), ("False", "not Ready")], ids=["ready", "not ready"]
)
def test_a_node_says_why_it_is_not_ready_and_of_its_taint_where_nothing_else_is_wrong(ready: str, says: str) -> None:
    cluster = Cluster()
    cluster.agent("n1", "a")
    cluster.observed.cache.put(
        NODES,
        cluster._document("n1", "node")
        | {
            "spec": {"taints": [{"key": "company/reserved", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        },
    )
    cluster.observed.sync(T0)
    (node,) = cluster.observed.snapshot(T0).nodes
    assert (node.ready, node.unready_because) == (False, says)


def test_a_dispute_is_in_the_log_once_and_again_when_it_is_another(caplog: pytest.LogCaptureFixture) -> None:
    cluster = running()
    cluster.node("n2")
    cluster.agent("n2", "b")
    cluster.gpus(T0 + 1)
    said = [record.message for record in caplog.records]
    cluster.agent("n2", "b", "c", at=T0 + 2)
    cluster.gpus(T0 + 2)
    again = [record.message for record in caplog.records]
    cluster.node("n3")
    cluster.agent("n3", "b")
    cluster.gpus(T0 + 3)
    assert len(said) == 2
    assert again == said
    assert len(caplog.records) > len(said)


@pytest.mark.parametrize(("setting", "claims"), [("counted", 1), ("ignored", 1), ("off", 0)])
def test_pods_get_claims_where_their_node_offers_its_gpus_unless_claims_are_off(setting: Any, claims: int) -> None:
    """Agents go on offering for a while after the administrator has switched it off."""
    cache = ObjectCache()
    offered = {"paths": [{"path": "DeviceClaim", "available": True}]}
    metadata = {"name": "n1", "uid": "g", "resourceVersion": "1"}
    document = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": metadata}
    cache.put(GPU_NODES, document | {"status": {"simulated": True, "capabilities": offered}}, False)
    meta = {"name": "p", "namespace": "t", "labels": {}, "ownerReferences": []}
    pod = {"metadata": meta, "spec": {"containers": [{"name": "worker", "env": []}]}}
    found = nodes.ClusterNodes(cache, ClusterState(), Settings(device_claims=setting))
    made = rendered(pod, placement_on(("n1", 1)).nodes[0], found.isolation_on("n1"), "nvidia")
    assert len(made.side_objects) == claims


def test_a_node_has_the_scratch_space_that_pods_of_others_leave() -> None:
    cluster = running()
    amounts = {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "100Gi"}
    ready = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    cluster.observed.cache.put(NODES, cluster._document("n1", "node") | {"status": ready})
    asks = [{"name": "main", "resources": {"requests": {"ephemeral-storage": "30Gi"}}}]
    made = {"metadata": cluster._document("web", "pod")["metadata"] | {"namespace": "shop"}, "status": {}}
    left = []
    for phase in ("Running", "Succeeded"):
        made["metadata"] = made["metadata"] | {"resourceVersion": str(int(made["metadata"]["resourceVersion"]) + 1)}
        document = made | {"spec": {"nodeName": "n1", "containers": asks}, "status": {"phase": phase}}
        cluster.observed.cache.put(PODS, document)
        cluster.gpus(T0 + 1)
        left += [node.scratch_mib for node in cluster.observed.snapshot(T0 + 1).nodes]
    assert left == [70 * 1024, 100 * 1024]
