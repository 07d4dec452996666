"""Two local clusters side by side: a job of the one runs on the other, which is lost for a while and found again.

`west` has the product and a node with GPUs. `here` has no GPUs; its operator runs beside it, because pods of a local
cluster reach no other. What it may do in `west` is what docs/clusters.md gives it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml

from cotenant.controller.client.credentials import load_configuration
from cotenant.controller.client.kube import REMOTE_CLUSTERS
from cotenant.controller.client.rest import RestKube
from cotenant.controller.composites.remote_clusters.connection import rest_connect
from cotenant.controller.composites.remote_clusters.remote_pods import RemotePods
from cotenant.controller.composites.remote_clusters.trouble import TroubleError
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.status_reading import read_status
from tests.live.e2e.tenancy import CHECKOUT, SYSTEM, Tenancy, product, training_job

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

EXAMPLE = CHECKOUT / "examples" / "clusters" / "other-clusters.yaml"
TENANTS = CHECKOUT / "examples" / "00-tenants.yaml"


@pytest.fixture(scope="module")
def west() -> Iterator[Tenancy]:
    from cotenant_local.cluster import spec

    with product("west", spec.uniform(1, gpus=2, gpu_class="H100", gpu_memory="80Gi")) as tenancy:
        yield tenancy


@pytest.fixture(scope="module")
def here(west: Tenancy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    from cotenant_local.cluster import lifecycle, spec

    name = f"here-{os.getpid()}"
    cluster = lifecycle.up(name, spec.uniform(0, gpus=0, gpu_class="H100", gpu_memory="80Gi"), attached=True)
    folder = tmp_path_factory.mktemp("here")
    try:
        cluster.kubectl("apply", "-f", str(CHECKOUT / "crds"))
        tenancy = Tenancy(cluster)
        tenancy.wait(lambda: "queues" in cluster.kubectl("api-resources"), what="the kinds are served")
        cluster.kubectl("apply", "-f", str(TENANTS))
        cluster.kubectl("create", "namespace", SYSTEM)
        kubeconfig = folder / "west.kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_of(west.cluster)))
        cluster.kubectl("create", "secret", "generic", "west", "-n", SYSTEM, f"--from-file=kubeconfig={kubeconfig}")
        flags = ["--namespace", SYSTEM, "--host", "127.0.0.1", "--port", "0", "--metrics-port", "0"]
        with (folder / "operator.log").open("wb") as log:
            operator = subprocess.Popen(
                [sys.executable, "-m", "cotenant", "operator", *flags, "--tick-s", "1"],
                env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)},
                stdout=log,
                stderr=log,
            )
        try:
            yield tenancy
        finally:
            operator.terminate()
            operator.wait()
            print((folder / "operator.log").read_text()[-4000:])
    finally:
        lifecycle.down(name)


def kubeconfig_of(cluster: Cluster) -> dict[str, Any]:
    """A kubeconfig of an account there that has the rights that the page names."""
    account = f"--serviceaccount={SYSTEM}:from-here"
    cluster.kubectl("create", "serviceaccount", "from-here", "-n", SYSTEM)
    cluster.kubectl("create", "clusterrolebinding", "from-here", "--clusterrole=cotenant-remote-jobs", account)
    token = cluster.kubectl("create", "token", "from-here", "-n", SYSTEM, "--duration=24h").strip()
    document: dict[str, Any] = json.loads(cluster.kubeconfig.read_text())
    return document | {"users": [{"name": "user", "user": {"token": token}}]}


def api_server_of(cluster: Cluster) -> psutil.Process:
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "kube-apiserver" in words and any(f"/{cluster.name}/" in word for word in words):
            return process
    raise AssertionError(f"{cluster.name} has no API server")


def status(tenancy: Tenancy, name: str) -> dict[str, Any]:
    found: dict[str, Any] = tenancy.job(name).get("status", {})
    return found


def is_lost(tenancy: Tenancy, name: str) -> bool:
    return any(one["type"] == "ClusterLost" for one in status(tenancy, name).get("conditions", []))


def mirrors(west: Tenancy) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = west.get("trainingjobs", "-n", "team-a", "-l", "cotenant.dev/origin")["items"]
    return found


def test_a_job_runs_on_the_other_cluster_and_outlives_its_loss(here: Tenancy, west: Tenancy) -> None:
    here.apply(*yaml.safe_load_all(EXAMPLE.read_text()))
    running = here.wait_phase("spilled", "Running")
    assert running["status"]["cluster"]["name"] == "west"
    assert running["status"]["message"].startswith("on cluster west: ")
    assert here.get("pods", "-n", "team-a")["items"] == []
    (mirror,) = mirrors(west)
    assert mirror["status"]["phase"] == "Running"

    server = api_server_of(west.cluster)
    server.send_signal(signal.SIGSTOP)
    try:
        here.wait(lambda: is_lost(here, "spilled"), what="the job says that nothing is heard")
        assert status(here, "spilled")["phase"] == "Running"
        assert here.get("remotecluster", "west")["status"]["reachable"] == "False"
    finally:
        server.kill()  # the cluster starts another

    done = here.wait_phase("spilled", "Succeeded", seconds=240)
    assert (done["status"]["cluster"]["phase"], is_lost(here, "spilled")) == ("Succeeded", False)
    (mirror,) = mirrors(west)
    assert mirror["status"]["attempts"] == 1, "it was started once"
    here.cluster.kubectl("delete", "trainingjob", "spilled", "-n", "team-a")
    here.wait(lambda: mirrors(west) == [], what="the job there is gone with the one here")


def test_a_job_that_is_suspended_here_leaves_the_other_cluster(here: Tenancy, west: Tenancy) -> None:
    here.apply(*[one for one in yaml.safe_load_all(EXAMPLE.read_text()) if one["kind"] != "TrainingJob"])
    job = training_job("held", command=["sleep", "3600"], gpu={"count": 1}, gracePeriod="5s")
    here.apply(job)
    here.wait_phase("held", "Running")
    patch = json.dumps({"spec": {"suspend": True}})
    here.cluster.kubectl("patch", "trainingjob", "held", "-n", "team-a", "--type=merge", "-p", patch)
    suspended = here.wait_phase("held", "Suspended")
    assert (mirrors(west), suspended["status"].get("cluster")) == ([], None)
    assert west.get("pods", "-n", "team-a", "-l", "cotenant.dev/job")["items"] == []


def test_what_it_prints_there_is_read_by_the_account_of_the_kubeconfig_if_it_may(here: Tenancy, west: Tenancy) -> None:
    here.apply(*[one for one in yaml.safe_load_all(EXAMPLE.read_text()) if one["kind"] != "TrainingJob"])
    says = "import time; print('hello from there', flush=True); time.sleep(3600)"
    here.apply(training_job("prints", command=["python", "-c", says], gpu={"count": 1}, gracePeriod="5s"))
    here.wait_phase("prints", "Running")
    with pytest.raises(TroubleError, match="role cotenant-remote-logs"):
        asyncio.run(printed(here, "prints"))
    account = f"--serviceaccount={SYSTEM}:from-here"
    west.cluster.kubectl("create", "clusterrolebinding", "logs", "--clusterrole=cotenant-remote-logs", account)
    here.wait(lambda: b"hello from there\n" in asyncio.run(printed(here, "prints")), what="its lines are read")
    here.cluster.kubectl("delete", "trainingjob", "prints", "-n", "team-a")


async def printed(tenancy: Tenancy, name: str) -> bytes:
    """What the first pod there has printed, as the operator here reads it."""
    cluster, cache = read_status(status(tenancy, name)).status.cluster, ObjectCache()
    assert cluster is not None
    cache.put(REMOTE_CLUSTERS, tenancy.get("remotecluster", cluster.name))
    connect = rest_connect(lambda _: None)
    async with RestKube(lambda: load_configuration(str(tenancy.cluster.kubeconfig))) as kube:
        pods = RemotePods(kube=kube, cache=cache, connect=connect, namespace=SYSTEM)
        async with pods.of(cluster) as there:
            first, *_ = await there.listed(cluster.attempts)
            async with there.log(first["metadata"]["name"], {"tailLines": "5"}) as chunks:
                return b"".join([chunk async for chunk in chunks])


def test_a_secret_that_is_gone_is_named_and_one_that_is_there_again_works(here: Tenancy, west: Tenancy) -> None:
    here.apply(*[one for one in yaml.safe_load_all(EXAMPLE.read_text()) if one["kind"] != "TrainingJob"])
    kept = here.get("secret", "west", "-n", SYSTEM)
    here.cluster.kubectl("delete", "secret", "west", "-n", SYSTEM)

    def reason() -> str:
        conditions = here.get("remotecluster", "west").get("status", {}).get("conditions", [])
        return str(conditions[0]["reason"]) if conditions else ""

    here.wait(lambda: reason() == "SecretMissing", what="the missing Secret is named")
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "west", "namespace": SYSTEM}}
    here.apply(made | {"data": kept["data"]})
    here.wait(lambda: reason() == "Answers", what="the cluster answers again")
