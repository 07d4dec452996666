"""The first process of a node: what it writes for runtime and kubelet, and what it reports. Nothing is mounted here."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.cluster_plan import ClusterPlan
from cotenant_local.host.processes import Death
from cotenant_local.node import init
from cotenant_local.node.init import NodeInit
from cotenant_local.runtime.interface import config
from cotenant_local.runtime.interface.config import RuntimeConfig
from local.tests.plans import cluster_plan


class PlayedProcesses:
    def status(self) -> dict[str, Any]:
        return {"kubelet": {"restarts": 1}}


class Channel:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, **message: Any) -> None:
        self.sent.append(message)


def made(folder: Path, plan: ClusterPlan, monkeypatch: pytest.MonkeyPatch) -> tuple[NodeInit, Channel]:
    played: Any = lambda _: PlayedProcesses()  # noqa: E731 – in the place of a class
    monkeypatch.setattr(init, "Processes", played)
    channel: Any = Channel()
    return NodeInit(ClusterFolder(folder), plan, plan.nodes[0], channel), channel


@pytest.mark.parametrize(("parent", "of_node"), [("/sys/fs/cgroup/x", "/sys/fs/cgroup/x/node-1"), (None, None)])
def test_the_runtime_is_configured_for_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parent: str | None, of_node: str | None
) -> None:
    node, _ = made(tmp_path, cluster_plan(cgroup_parent=parent), monkeypatch)
    assert node.runtime_configuration() == RuntimeConfig(
        node="node-1",
        socket=Path("/run/cotenant/cri.sock"),
        state_dir=Path("/var/lib/cotenant"),
        pod_cidr="10.244.1.0/24",
        node_address="10.89.0.10",
        catalogue=Path("/images.json"),
        mtu=65520,
        cgroup_parent=of_node,
        policy_kubeconfig=Path("/run/cotenant/network-policies.kubeconfig"),
        dns_address="10.89.0.1",
    )


def test_a_node_with_limits_of_gpu_memory_has_a_stand_in_for_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = cluster_plan()
    node, _ = made(tmp_path, replace(plan, nodes=(replace(plan.nodes[0], memory_limits=True),)), monkeypatch)
    assert node.runtime_configuration().gpu_driver == tmp_path / "nodes/node-1/gpu-driver"


def test_every_file_that_the_nodes_programs_name_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "config").mkdir()
    for name in ("kubelet-node-1", "kube-proxy", "network-policies"):
        (tmp_path / "config" / f"{name}.kubeconfig").write_text(name)
    monkeypatch.setattr(init, "RUN", run)
    node, _ = made(tmp_path, cluster_plan(), monkeypatch)
    node.write_configuration()
    texts = {file.name: file.read_text() for file in run.iterdir()}
    assert json.loads(texts.pop("kubelet.json"))["address"] == "10.89.0.10"
    assert json.loads(texts.pop("kube-proxy.json"))["hostnameOverride"] == "node-1"
    assert texts.pop("cri.json") == config.dump(node.runtime_configuration())
    assert texts == {
        "resolv.conf": "",
        "kubelet.kubeconfig": "kubelet-node-1",
        "kube-proxy.kubeconfig": "kube-proxy",
        "network-policies.kubeconfig": "network-policies",
    }


async def test_a_death_is_reported_at_once_with_the_state_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, channel = made(tmp_path, cluster_plan(), monkeypatch)
    node.on_death(Death("kubelet", "exit code 1", "", 0.0))
    components = {"kubelet": {"restarts": 1}}
    assert channel.sent == [{"note": "kubelet died: exit code 1; its log is empty", "components": components}]
    node.report()
    assert channel.sent[1:] == [{"components": components}]
