"""A job with parameter servers on a cluster of one tainted GPU node and one node without GPUs, under real kubelets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.live.e2e.tenancy import CHECKOUT, Document, Tenancy, product

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

EXAMPLE = CHECKOUT / "examples" / "parameter-server" / "digits.yaml"


@pytest.fixture(scope="module")
def mixed() -> Iterator[Tenancy]:
    """A usual cluster: only pods that tolerate the taint run on the nodes with GPUs."""
    from cotenant_local.cluster import spec

    gpu = {"name": "gpu", "gpus": {"count": 2, "class": "H100"}, "taints": ["nvidia.com/gpu=present:NoSchedule"]}
    with product("servers", spec.parse({"nodes": [gpu, {"name": "cpu"}]}, "this test")) as tenancy:
        yield tenancy
        tenancy.delete_all()


def example(name: str, **parameter_server: object) -> list[Document]:
    """The documents of the file under another name, with more said of the servers."""
    config, job = yaml.safe_load_all(EXAMPLE.read_text())
    job["metadata"]["name"] = name
    job["spec"]["runtime"]["parameterServer"] |= parameter_server
    return [config, job]


def pods(tenancy: Tenancy, job: str) -> dict[str, Document]:
    items = tenancy.get("pods", "-n", "team-a", "-l", f"cotenant.dev/job={job}")["items"]
    return {pod["metadata"]["name"].removeprefix(f"{job}-1-"): pod for pod in items}


def test_servers_run_on_the_node_without_gpus_and_the_job_trains_to_its_end(mixed: Tenancy) -> None:
    mixed.apply(*yaml.safe_load_all(EXAMPLE.read_text()))
    status = mixed.wait_phase("served-digits", "Succeeded", "Failed", seconds=300)["status"]
    found = pods(mixed, "served-digits")
    logs = {name: mixed.logs(f"served-digits-1-{name}") for name in found}
    assert status["phase"] == "Succeeded", (status, logs)
    assert {name: pod["spec"]["nodeName"] for name, pod in found.items()} == {"0": "gpu", "s0": "cpu", "s1": "cpu"}
    # The job ends with its containers. The pod's phase changes later, when its kubelet has reported it.
    ended = lambda: {pod["status"]["phase"] for pod in pods(mixed, "served-digits").values()} == {"Succeeded"}  # noqa: E731
    mixed.wait(ended, seconds=30, what="all pods of the job have succeeded")
    assert float(status["results"]["test_accuracy"]) >= 0.9, logs["0"]


def test_a_server_that_fits_nowhere_is_told_in_the_schedulers_words_until_the_job_is_deleted(mixed: Tenancy) -> None:
    mixed.apply(*example("too-big", servers=1, resources={"cpu": "1000", "memory": "256Mi"}))

    def told() -> bool:
        return bool(mixed.job("too-big").get("status", {}).get("reason") == "Unschedulable")

    mixed.wait(told, what="the job says why it does not start")
    message = mixed.job("too-big")["status"]["message"]
    assert message.startswith("server pod too-big-1-s0 does not start: Unschedulable: 0/2 nodes are available"), message
    assert "Insufficient cpu" in message
    assert "untolerated taint" in message
    mixed.delete_all()


def test_servers_that_may_do_so_run_beside_the_ranks_on_the_tainted_node(mixed: Tenancy) -> None:
    there = {"tolerateGpuTaints": True, "nodeSelector": {"kubernetes.io/hostname": "gpu"}}
    mixed.apply(*example("beside", servers=1, **there))
    status = mixed.wait_phase("beside", "Succeeded", "Failed", seconds=300)["status"]
    found = pods(mixed, "beside")
    assert status["phase"] == "Succeeded", (status, mixed.logs("beside-1-0"))
    assert {name: pod["spec"]["nodeName"] for name, pod in found.items()} == {"0": "gpu", "s0": "gpu"}
