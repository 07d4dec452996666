"""What is asked of the local cluster, and how it says no: cluster files, names, missing programs and rights."""

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from cotenant_local.cluster import planner, quantities, sandbox, spec
from cotenant_local.host import folders
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.errors import LocalError
from cotenant_local.node import simulated_resources


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"nodes": [{}]}, "nodes.0.name: Field required"),
        ({"nodes": [{"name": "UPPER"}]}, "nodes.0.name: String should match pattern"),
        ({"nodes": [{"name": "a", "cpus": 4}]}, "nodes.0.cpus: Extra inputs are not permitted"),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, "nodes: a: named more than once"),
        ({"nodes": [{"name": "a", "cpu": 0}]}, "nodes.0.cpu: Input should be greater than or equal to 1"),
        ({"nodes": [{"name": "a", "memory": "1MB"}]}, "'1MB' is not an amount of memory such as 512Mi or 80Gi"),
        ({"nodes": [{"name": "a", "memory": "10Mi"}]}, "nodes.0.memory: Value error, is less than 64Mi"),
        ({"nodes": [{"name": "a", "taints": ["x"]}]}, "'x' is not KEY[=VALUE]:NoSchedule|PreferNoSchedule|NoExecute"),
        ({"nodes": [{"name": "a", "resources": {"gpu": 1}}]}, "is not an extended resource such as example.com/dongle"),
        ({"nodes": [{"name": "a", "gpus": {"count": 2}}]}, "nodes.0.gpus.class: Field required"),
        ({"nodes": [{"name": "a", "gpus": {"count": 99, "class": "H100"}}]}, "less than or equal to 16"),
        ({"nodes": [{"name": "a", "count": 65}]}, "nodes: count: want a number from 0 to 64, got 65"),
        ({"nodes": {"name": "a"}}, "nodes: want a list"),
        ({"forwards": [{"service": "web:80"}]}, "forwards.0.service: String should match pattern"),
        ({"node": []}, "node: Extra inputs are not permitted"),
        ({"images": {"Jax": {}}}, "images.Jax.[key]: String should match pattern"),
        ({"images": {"jax": {"like": "pytorch"}}}, "images.jax.like: Input should be"),
        ({"images": {"jax": {}, "docker.io/library/jax:1": {}}}, "images: jax: named more than once"),
        ({"images": {"jax": {"paths": ["opt"]}}}, "'opt' is not an absolute path"),
    ],
)
def test_a_cluster_file_that_cannot_be_is_refused_at_the_field(document: dict[str, Any], said: str) -> None:
    with pytest.raises(LocalError) as refusal:
        spec.parse(document, "cluster.yaml")
    assert str(refusal.value).startswith("cluster.yaml: ")
    assert said in str(refusal.value)


def test_a_file_that_is_no_mapping_or_no_yaml_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("- a list")
    with pytest.raises(LocalError, match=r"cluster.yaml: want a mapping with `nodes:`, got list"):
        spec.load(file)
    file.write_text("{")
    with pytest.raises(LocalError, match=r"cluster.yaml: cannot be read as YAML"):
        spec.load(file)


def test_count_makes_numbered_nodes() -> None:
    asked = spec.parse({"nodes": [{"name": "big", "count": 2, "zone": "a"}, {"name": "odd"}]}, "this test")
    assert [(node.name, node.zone) for node in asked.nodes] == [("big-1", "a"), ("big-2", "a"), ("odd", None)]


def places(folder: Path) -> planner.Prerequisites:
    return planner.Prerequisites(ClusterFolder(folder), programs=folder, stubs=folder, oldest=None, cgroup=None)


def test_a_node_carries_its_zone_inventory_and_taints_from_the_start(tmp_path: Path) -> None:
    node = {"name": "a", "zone": "z", "gpus": {"count": 2, "class": "A100"}, "taints": ["gpu=yes:NoSchedule"]}
    plan, listeners = planner.plan("name", spec.parse({"nodes": [node]}, "this test"), places(tmp_path))
    for listener in listeners:
        listener.close()
    (planned,) = plan.nodes
    assert planned.manifest["metadata"] == {
        "name": "a",
        "labels": {"topology.kubernetes.io/zone": "z", "cotenant.dev/gpu-class": "A100"},
        "annotations": {"cotenant.dev/simulated-gpus": '{"class": "A100", "memory": "80Gi", "count": 2}'},
    }
    assert planned.manifest["spec"] == {
        "podCIDR": "10.244.1.0/24",
        "podCIDRs": ["10.244.1.0/24"],
        "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
    }


def test_more_disk_than_there_is_is_refused(tmp_path: Path) -> None:
    asked = spec.parse({"nodes": [{"name": "a", "ephemeralStorage": "900Ti"}]}, "this test")
    with pytest.raises(LocalError, match=r"node a: ephemeralStorage 900Ti is more than the disk .* has"):
        planner.plan("name", asked, places(tmp_path))


@pytest.mark.parametrize("name", ["", "-a", "A", "a/b", "..", "a" * 41])
def test_a_name_that_is_no_folder_and_no_label_is_refused(name: str) -> None:
    with pytest.raises(LocalError, match=r"use 1 to 40 lower-case letters, digits and dashes"):
        folders.cluster(name)


@pytest.mark.parametrize(
    ("text", "amount"), [("1", 1), ("2k", 2000), ("512Mi", 2**29), ("80Gi", 80 * 2**30), ("1T", 10**12)]
)
def test_amounts_are_whole_bytes(text: str, amount: int) -> None:
    assert quantities.to_bytes(text) == amount


@pytest.mark.parametrize("text", ["", "-1", "1.5Gi", "1 Gi", "Gi", "1Gib"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an amount of memory"):
        quantities.to_bytes(text)


def missing(monkeypatch: pytest.MonkeyPatch, *, there: set[str]) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path: f"/bin/{name}" if name in there else None)


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"unshare", "nsenter", "ip", "apt-get"}, "Run: sudo apt-get install -y nftables"),
        ({"unshare", "nsenter", "dnf"}, "Run: sudo dnf install -y iproute nftables"),
        ({"unshare", "nsenter", "ip"}, "programs are missing: install nftables and try again"),
    ],
)
def test_a_missing_program_is_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch, there: set[str], said: str
) -> None:
    missing(monkeypatch, there=there)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LocalError) as refusal:
        sandbox.check()
    assert said in str(refusal.value)


def test_forbidden_namespaces_are_told_with_the_switch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    switch = tmp_path / "apparmor_restrict_unprivileged_userns"
    switch.write_text("1\n")
    monkeypatch.setattr(sandbox, "SWITCHES", ((str(tmp_path / "absent"), "0", "no"), (str(switch), "1", "the command")))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name, path: name)
    refused = SimpleNamespace(returncode=1, stderr="unshare: unshare failed: Operation not permitted")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(LocalError, match=rf"{switch} is 1. Run: the command\nor run the same command as root"):
        sandbox.check()


def test_the_kubelet_of_a_simulated_machine_reads_what_was_asked_for(tmp_path: Path) -> None:
    real = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\nHugePages_Total:       0\n"
    shown = dict(line.split(":") for line in simulated_resources.meminfo(real, total=4096 * 1024).splitlines())
    figures = {name: int(value.split()[0]) for name, value in shown.items()}
    # 600 kB of the real machine are in use, and stay so.
    assert figures["MemTotal"] == 4096
    assert figures["MemAvailable"] == 4096 - 600
    simulated_resources.write_processors(tmp_path, 3)
    assert (tmp_path / "cpu" / "online").read_text() == "0-2\n"
    assert sorted(cpu.name for cpu in (tmp_path / "node" / "node0").glob("cpu*")) == ["cpu0", "cpu1", "cpu2"]


def test_the_cluster_file_in_the_documentation_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "local-cluster.md").read_text()
    (block,) = [part.partition("```")[0] for part in page.split("```yaml\n")[1:]]
    asked = spec.parse(yaml.safe_load(block), "docs/local-cluster.md")
    assert [node.name for node in asked.nodes] == ["big-1", "big-2", "small"]
