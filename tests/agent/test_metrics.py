"""What Prometheus is told, over real HTTP, and who is told."""

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from cotenant.serving.metrics_access import Access
from cotenant_agent import http_server, metrics
from cotenant_agent.agent import Agent
from cotenant_agent.enforcement.attribution import OwnerKind, ProcessOwner
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.enforcement.quota import PodQuota
from cotenant_agent.failures import Step
from cotenant_agent.gpus.capabilities import Capabilities
from cotenant_agent.gpus.readings import Gpu, GpuInventory, GpuProcess, GpuSample, HealthSigns, XidEvent
from cotenant_agent.gpus.sampler import GpuPoll
from cotenant_agent.reports.gpunode_client import GPUNodeClient
from cotenant_agent.reports.node_view import NodeObserver

GIB = 1 << 30
OWNERS = {1: ProcessOwner(OwnerKind.POD, "pod-1"), 2: ProcessOwner(OwnerKind.FOREIGN)}
GRANTS = {"pod-1": PodQuota(pod_uid="pod-1", namespace="red", pod="a-1-0", quota_mib={"GPU-a": 2048}, job="a")}


class QuietCluster(GPUNodeClient):
    """A cluster that accepts everything and says nothing."""

    def __init__(self) -> None: ...

    def node(self) -> dict[str, Any]:
        return {"metadata": {"uid": "n"}}

    def runtime_class_exists(self, name: str) -> bool:
        return True

    def gpu_nodes(self) -> int:
        return 1

    def ensure_gpu_node(self, node: Mapping[str, Any]) -> dict[str, Any]:
        return {"metadata": {}}

    def patch_status(self, patch: Mapping[str, Any]) -> dict[str, Any]:
        return {"metadata": {}}

    def remove_annotation(self, key: str) -> None:
        raise AssertionError("nothing was annotated")

    def pods(self) -> PodsOnNode | None:
        return PodsOnNode(grants=GRANTS)


def make_agent() -> Agent:
    gpu = Gpu(uuid="GPU-a", index=0, gpu_class="H100", memory_mib=81920, product="H100 80GB")
    inventory = GpuInventory(simulated=False, gpus=(gpu,))
    observer = NodeObserver(inventory, Capabilities(), owner=OWNERS.__getitem__, attributing=True)
    return Agent(QuietCluster(), observer, booted_at=0.0, node="n1")


def look(agent: Agent, at: float) -> None:
    sample = GpuSample(
        uuid="GPU-a",
        used_mib=4096,
        utilization_percent=37,
        power_milliwatts=412_500,
        temperature_c=61,
        processes=(GpuProcess(1, 1024, 25), GpuProcess(2, 3072, 12)),
        signs=HealthSigns(ecc_uncorrected=2),
    )
    agent.reconcile(GpuPoll(agent._observer.inventory, (sample,), at, 0.01), [XidEvent("GPU-a", 31, at)], at)


Get = Callable[[str], tuple[int, str]]


@pytest.fixture
def served() -> Iterator[tuple[Agent, Get]]:
    agent = make_agent()
    server = http_server.serve(("127.0.0.1", 0), metrics.paths(agent, None))

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    yield agent, get
    server.shutdown()
    server.server_close()


def test_the_figures_of_gpus_and_pods_are_those_of_the_last_look(served: tuple[Agent, Get]) -> None:
    agent, get = served
    look(agent, time.time())
    lines = get("/metrics")[1].splitlines()
    gpu = '{class="H100",simulated="false",uuid="GPU-a"}'
    pod = '{namespace="red",pod="a-1-0",pod_uid="pod-1",training_job="a",uuid="GPU-a"}'
    dcgm = '{Hostname="n1",UUID="GPU-a",device="nvidia0",gpu="0",modelName="H100 80GB"}'
    for line in (
        f"cotenant_gpu_memory_bytes{gpu} {80 * GIB:.16e}",
        f"cotenant_gpu_memory_used_bytes{gpu} {4 * GIB:.16e}",
        f"cotenant_gpu_utilization_ratio{gpu} 0.37",
        f"cotenant_gpu_healthy{gpu} 1.0",
        f"cotenant_gpu_ecc_uncorrected{gpu} 2.0",
        'cotenant_gpu_xids_total{uuid="GPU-a",xid="31"} 1.0',
        f"cotenant_pod_gpu_memory_used_bytes{pod} {GIB:.16e}",
        f"cotenant_pod_gpu_utilization_ratio{pod} 0.25",
        f"cotenant_pod_gpu_memory_quota_bytes{pod} {2 * GIB:.16e}",
        f'cotenant_gpu_foreign_memory_bytes{{uuid="GPU-a"}} {3 * GIB:.16e}',
        f"DCGM_FI_DEV_GPU_UTIL{dcgm} 37.0",
        f"DCGM_FI_DEV_FB_USED{dcgm} 4096.0",
        f"DCGM_FI_DEV_FB_FREE{dcgm} 77824.0",
        f"DCGM_FI_DEV_POWER_USAGE{dcgm} 412.5",
        f"DCGM_FI_DEV_GPU_TEMP{dcgm} 61.0",
        "cotenant_gpu_quota_violations 0.0",
        "cotenant_gpu_strangers 0.0",
        'cotenant_gpu_holders{evidence="Pod"} 1.0',
        'cotenant_gpu_holders{evidence="Processes"} 0.0',
        "cotenant_agent_status_writes_total 1.0",
    ):
        name, _, value = line.rpartition(" ")
        found = [other.rpartition(" ") for other in lines if other.startswith(name + " ")]
        assert [float(amount) for _, _, amount in found] == [float(value)], line


def test_what_the_agent_survived_is_counted_by_step_before_any_look(served: tuple[Agent, Get]) -> None:
    agent, get = served
    agent.contained.note(Step.POD, "pod red/a", ValueError("no"))
    lines = get("/metrics")[1].splitlines()
    counts = [line for line in lines if line.startswith("cotenant_agent_failures_total")]
    assert counts == [
        f'cotenant_agent_failures_total{{step="{step.value}"}} {1.0 if step is Step.POD else 0.0}' for step in Step
    ]


def test_an_agent_that_has_not_looked_yet_has_no_figures_of_gpus(served: tuple[Agent, Get]) -> None:
    _, get = served
    assert "cotenant_gpu" not in get("/metrics")[1]


@pytest.mark.parametrize("access", list(Access), ids=lambda access: access.name)
def test_only_who_may_read_is_answered(access: Access) -> None:
    agent, asked = make_agent(), list[str]()
    look(agent, time.time())

    def answer(header: str) -> Access:
        asked.append(header)
        return access

    found = metrics.paths(agent, answer)["/metrics"]("Bearer t")
    allowed = access is Access.ALLOWED
    assert (found.code, asked, b"cotenant_gpu" in found.body) == (int(access), ["Bearer t"], allowed)
    assert found.headers == ({} if allowed else {"WWW-Authenticate": "Bearer"})


def test_names_of_the_dcgm_exporter_are_left_to_it_on_wish_and_lowered_levels_are_counted() -> None:
    agent = make_agent()
    look(agent, time.time())
    agent.conditions = ({"type": "MemoryIsolationLowered", "status": "True"},)
    body = metrics.paths(agent, None, dcgm_names=False)["/metrics"]("").body.decode()
    assert "DCGM" not in body
    assert 'cotenant_isolation_lowered{condition="MemoryIsolationLowered"} 1.0' in body


def test_gpus_that_are_not_handed_out_or_listed_are_counted_and_lower_no_level() -> None:
    agent = make_agent()
    inventory = replace(agent._observer.inventory, unreadable=("0000:01:00.0: it has fallen off the bus",))
    agent.reconcile(GpuPoll(inventory, (), time.time(), 0.01), [], time.time())
    lines = metrics.paths(agent, None)["/metrics"]("").body.decode().splitlines()
    assert 'cotenant_gpu_healthy{class="H100",simulated="false",uuid="GPU-a"} 0.0' in lines
    assert "cotenant_gpus_unlisted 1.0" in lines
    assert [one["type"] for one in agent.conditions] == ["GPUsUnreadable"]
    assert not [line for line in lines if line.startswith("cotenant_isolation_lowered{")]
