"""Statistics of what runs: a container that has ended has none, and a pod is the sum of its containers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from cotenant_local.runtime.containers import usage
from cotenant_local.runtime.containers.usage import ContainerUsage
from cotenant_local.runtime.cri import stats_messages
from cotenant_local.runtime.cri.stats_service import StatsService
from local.tests.runtime.cri.test_grpc_errors import AbortedError, Context
from local.tests.runtime.cri_messages import Message

pytestmark = pytest.mark.usefixtures("cri_classes")


def measured(timestamp: int, cpu: int, memory: int) -> ContainerUsage:
    return ContainerUsage(timestamp, cpu, memory, memory - 1, memory - 2, processes=3, written=40, files=5)


def container(name: str, *, running: bool = True) -> Any:
    config = Message(metadata=Message(name=name), labels={"app": name}, annotations={})
    return SimpleNamespace(id=name, config=config, sandbox_id="pod", running=running)


class Runtime:
    """A pod with a container that ran, one that runs, and one that runs beside it."""

    def __init__(self, storage: Path) -> None:
        self.found = {name: container(name, running=name != "ended") for name in ("ended", "main", "beside")}
        self.usages = {"main": measured(100, 7, 1000), "beside": measured(200, 5, 500)}
        self.pod: Any = SimpleNamespace(id="pod", ready=True, config=Message(labels={}, annotations={}))
        self.containers = SimpleNamespace(all=self.found, of=lambda _: list(self.found.values()))
        self.sandboxes = SimpleNamespace(all={"pod": self.pod})
        self.meter = SimpleNamespace(measure=lambda chosen: dict(self.usages))
        self.storage = lambda: storage

    def container(self, identity: str) -> Any:
        return self.found[identity]

    def sandbox(self, identity: str) -> Any:
        return {"pod": self.pod}[identity]


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr(usage, "network", lambda sandbox: (1, 2, 3, 4))
    return Runtime(tmp_path)


def service(runtime: Any) -> StatsService:
    return StatsService(runtime)


async def test_a_container_that_runs_has_what_was_measured(runtime: Runtime) -> None:
    stats = (await service(runtime).ContainerStats(Message(container_id="main"), Context())).stats
    assert (stats.attributes.id, stats.cpu.usage_core_nano_seconds.value, stats.cpu.timestamp) == ("main", 7, 100)
    memory = stats.memory
    assert (memory.usage_bytes.value, memory.working_set_bytes.value, memory.rss_bytes.value) == (1000, 999, 998)
    assert (stats.writable_layer.used_bytes.value, stats.writable_layer.inodes_used.value) == (40, 5)


@pytest.mark.parametrize(
    ("identity", "code", "message"),
    [("ended", "FAILED_PRECONDITION", "container ended is not running"), ("absent", "NOT_FOUND", "absent")],
)
async def test_one_that_has_ended_or_never_was_has_none(
    runtime: Runtime, identity: str, code: str, message: str
) -> None:
    with pytest.raises(AbortedError) as refusal:
        await service(runtime).ContainerStats(Message(container_id=identity), Context())
    assert refusal.value.args == (grpc.StatusCode[code], message)


async def test_a_list_has_those_that_run_and_a_stream_the_same(runtime: Runtime) -> None:
    listed = await service(runtime).ListContainerStats(Message(), Context())
    streamed = [one async for one in service(runtime).StreamContainerStats(Message(), Context())]
    assert [one.attributes.id for one in listed.stats] == ["main", "beside"]
    assert [one.container_stats[0].attributes.id for one in streamed] == ["main", "beside"]


async def test_a_pod_is_the_sum_of_its_containers_at_the_newest_of_their_times(runtime: Runtime) -> None:
    linux = (await service(runtime).PodSandboxStats(Message(pod_sandbox_id="pod"), Context())).stats.linux
    assert (linux.cpu.usage_core_nano_seconds.value, linux.cpu.timestamp) == (12, 200)
    assert (linux.memory.usage_bytes.value, linux.process.process_count.value) == (1500, 6)
    network = linux.network.default_interface
    assert [one.value for one in (network.rx_bytes, network.rx_errors, network.tx_bytes, network.tx_errors)] == [
        1,
        2,
        3,
        4,
    ]
    assert [one.attributes.id for one in linux.containers] == ["main", "beside"]


async def test_a_pod_that_has_stopped_has_none_and_is_in_no_list(runtime: Runtime) -> None:
    runtime.pod.ready = False
    assert (await service(runtime).ListPodSandboxStats(Message(), Context())).stats == []
    with pytest.raises(AbortedError) as refusal:
        await service(runtime).PodSandboxStats(Message(pod_sandbox_id="pod"), Context())
    assert refusal.value.args == (grpc.StatusCode.FAILED_PRECONDITION, "pod sandbox pod is not running")


def test_a_pod_of_which_nothing_is_measured_uses_nothing(runtime: Runtime) -> None:
    stats = stats_messages.sandbox_stats(runtime.pod, [container("main")], {}, "/storage")
    assert (stats.linux.cpu.usage_core_nano_seconds.value, stats.linux.cpu.timestamp) == (0, 0)
    assert stats.linux.containers == []
