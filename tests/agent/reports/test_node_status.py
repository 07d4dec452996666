"""The document in GPUNode.status that a view of the node gives, and when it is written."""

from dataclasses import replace
from typing import Any

import pytest

from cotenant import names
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.gpus.readings import Gpu, GpuSample, HealthSigns
from cotenant_agent.reports import node_status
from cotenant_agent.reports.node_view import NO_MPS, NO_PLUGIN, NOT_OFFERED, NodeObserver
from tests.agent.reports.observed import NOW, PODS, busy, make_observer

MISSING = (
    "the driver is 580.65.06, it must be 615 or later"
    "; the driver's library cannot read limits back (nvmlDeviceGetMemoryLimits_v1)"
    "; the container toolkit is 1.20.0, it must be 1.20.1 or later"
    "; the host's cgroup v2 tree is not mounted in the agent's pod"
)
PATHS = [
    {"path": "RuntimeClass", "available": True, "reason": ""},
    {"path": "MIG", "available": False, "reason": "no GPU of this node has MIG instances"},
    {"path": "MemoryLimit", "available": False, "reason": MISSING},
    {"path": "DevicePlugin", "available": False, "reason": NO_PLUGIN},
    {"path": "DeviceClaim", "available": False, "reason": NOT_OFFERED},
    {"path": "MPS", "available": False, "reason": NO_MPS},
    {"path": "ExtendedResource", "available": False, "reason": "GPUs of CUDA get into pods by their UUIDs"},
]


def test_the_status_is_the_whole_node() -> None:
    observer = make_observer()
    for poll in range(3):
        view = observer.observe(busy(1, 4), PODS, NOW + poll)
    assert node_status.build(view) == {
        "heartbeat": "2023-11-14T22:13:22Z",
        "simulated": False,
        "driverVersion": "580.65.06",
        "toolkitVersion": "1.20.0",
        "capabilities": {"runtimeClass": True, "cdi": False, "dmem": False, "mps": False, "paths": PATHS},
        "isolation": "Watched",
        "isolationLevels": {"memory": "Watched", "compute": "None"},
        "limits": [],
        "summary": "2 × H100 80Gi",
        "node": "",
        "health": "1 of 2 ill: Stranger",
        "gpus": [
            {
                "uuid": "GPU-a",
                "index": 0,
                "class": "H100",
                "memoryMiB": 81920,
                "healthy": False,
                "drain": False,
                "health": "Stranger: processes outside pods use 1500 MiB",
                "peers": ["GPU-b"],
                "mig": False,
                "parent": "",
                "pciBusId": "18",
                "used": {"memoryMiB": 2000, "utilizationPercent": 37},
                "processes": [{"podUID": "", "memoryMiB": 1500}, {"podUID": "pod-1", "memoryMiB": 1500}],
            },
            {
                "uuid": "GPU-b",
                "index": 1,
                "class": "H100",
                "memoryMiB": 81920,
                "healthy": True,
                "drain": False,
                "health": "",
                "peers": ["GPU-a"],
                "mig": False,
                "parent": "",
                "pciBusId": "2A",
                "used": {"memoryMiB": 0},
                "processes": [],
            },
        ],
        "violations": [
            {
                "podUID": "pod-1",
                "uuid": "GPU-a",
                "memoryMiB": 1500,
                "quotaMiB": 1000,
                "since": "2023-11-14T22:13:20Z",
            }
        ],
        "holders": [
            {
                "podUID": "pod-1",
                "namespace": "red",
                "pod": "a-1-0",
                "job": "a",
                "jobUID": "uid-a",
                "attempt": 1,
                "nodeRank": 0,
                "gpus": [{"uuid": "GPU-a", "memoryMiB": 1000, "computeMilli": 400}],
                "since": "2023-11-14T22:13:20Z",
                "evidence": "Pod",
            }
        ],
        "strangers": [
            {
                "podUID": "",
                "uuid": "GPU-a",
                "memoryMiB": 1500,
                "reason": "processes outside pods use 1500 MiB",
                "since": "2023-11-14T22:13:20Z",
            }
        ],
    }


@pytest.mark.parametrize(
    ("observer", "level"),
    [
        (make_observer(), "Watched"),
        (make_observer(attributing=False), "Cooperative"),
        (make_observer(simulated=True), "None"),
    ],
    ids=["memory can be attributed", "memory cannot be attributed", "simulated GPUs enforce nothing"],
)
def test_the_isolation_level_is_what_can_be_enforced(observer: NodeObserver, level: str) -> None:
    assert node_status.build(observer.observe(busy(), PodsOnNode(), NOW))["isolation"] == level


def health_of(observer: NodeObserver, samples: tuple[GpuSample, ...]) -> list[tuple[bool, str]]:
    gpus = node_status.build(observer.observe(samples, PodsOnNode(), NOW))["gpus"]
    return [(gpu["healthy"], gpu["health"].partition(":")[0]) for gpu in gpus]


def test_a_sick_gpu_is_not_healthy_and_says_why() -> None:
    assert health_of(make_observer(), busy(signs=HealthSigns(lost=True))) == [(False, "GpuLost"), (True, "")]


def test_a_gpu_that_is_no_longer_listed_is_not_healthy() -> None:
    assert health_of(make_observer(), busy()[:1]) == [(True, ""), (False, "NotSampled")]


def test_a_partitioned_gpu_is_not_offered() -> None:
    assert health_of(make_observer(mig=True), busy()) == [(False, "MigEnabled"), (True, "")]


SICK = {"healthy": False, "health": "GpuLost: the driver cannot reach the GPU"}
SLOW = {"healthy": True, "health": "Slow: 3 times as slow"}
WELL = {"healthy": True, "health": ""}


@pytest.mark.parametrize(
    ("gpus", "text"),
    [
        ([], ""),
        ([WELL, WELL], "healthy"),
        ([WELL, SLOW], "1 of 2 warned: Slow"),
        ([SICK, SLOW, WELL, SICK], "2 of 4 ill: GpuLost"),
        ([SICK | {"health": f"XID{n}: …"} for n in (79, 48, 62, 63)], "4 of 4 ill: XID48, XID62, XID63 and 1 more"),
    ],
    ids=["no GPUs", "all are well", "one is slow", "two are ill", "many reasons"],
)
def test_the_health_of_all_listed_gpus_is_one_phrase(gpus: list[dict[str, Any]], text: str) -> None:
    assert node_status.health_summary(gpus) == text


@pytest.mark.parametrize(
    ("gpus", "text"),
    [
        ([], "2 more cannot be listed"),
        ([WELL, WELL], "2 more cannot be listed"),
        ([SICK, WELL], "1 of 2 ill: GpuLost; 2 more cannot be listed"),
    ],
    ids=["none is listed", "the others are well", "one of the others is ill"],
)
def test_the_phrase_counts_gpus_that_are_not_listed(gpus: list[dict[str, Any]], text: str) -> None:
    assert node_status.health_summary(gpus, ("GPU 2: Unknown Error", "GPU 3: GPU is lost")) == text


READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (READY, "Ready"),
        (READY | {"spec": {"unschedulable": True}}, "Cordoned"),
        (READY | {"spec": {"taints": [TAINT, {"key": "team", "effect": "NoSchedule"}]}}, "Tainted"),
        (READY | {"spec": {"taints": [TAINT, {"key": "team", "effect": "PreferNoSchedule"}]}}, "Ready"),
        (READY | {"spec": {"unschedulable": True, "taints": [CORDON]}}, "Cordoned"),
        ({"spec": {"unschedulable": True}}, "NotReady"),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "NotReady"),
    ],
    ids=[
        "it takes pods",
        "cordoned",
        "tainted for others",
        "a taint that keeps nothing away",
        "the taint of a cordon",
        "cordoned and not ready",
        "its kubelet is silent",
    ],
)
def test_whether_the_node_takes_worker_pods(node: dict[str, Any], text: str) -> None:
    assert node_status.node_condition(node, [{"key": "nvidia.com/gpu", "operator": "Exists"}]) == text


def changed(**top: Any) -> dict[str, Any]:
    return node_status.build(make_observer().observe(busy(1), PODS, NOW)) | top


@pytest.mark.parametrize(
    ("document", "since_last", "want"),
    [
        pytest.param(changed(), 5.0, False, id="nothing new"),
        pytest.param(changed(holders=[]), 1.0, True, id="a pod that holds GPUs no more"),
        pytest.param(
            changed(strangers=[{"podUID": "p", "uuid": "u", "since": "s", "memoryMiB": 1}]), 1.0, True, id="a stranger"
        ),
        pytest.param(changed(), 15.0, True, id="the heartbeat is due"),
        pytest.param(changed(driverVersion="1"), 1.0, True, id="another driver"),
        pytest.param(changed(violations=[{"podUID": "p", "uuid": "u", "since": "s"}]), 1.0, True, id="a violation"),
        pytest.param(
            node_status.build(make_observer().observe(busy(1, used=7), PODS, NOW)),
            1.0,
            False,
            id="memory rides along",
        ),
        pytest.param(
            node_status.build(make_observer().observe(busy(1, 3), PODS, NOW)), 1.0, True, id="somebody else on a GPU"
        ),
        pytest.param(
            node_status.build(make_observer().observe(busy(1, signs=HealthSigns(lost=True)), PODS, NOW)),
            1.0,
            True,
            id="a sick GPU",
        ),
    ],
)
def test_what_is_written_at_once(document: dict[str, Any], since_last: float, want: bool) -> None:
    assert node_status.must_write(changed(), document, since_last, names.HEARTBEAT_S) is want


def test_the_first_status_is_always_due() -> None:
    assert node_status.must_write(None, changed(), 0.0, names.HEARTBEAT_S)


def test_a_patch_carries_the_heartbeat_and_what_changed() -> None:
    assert node_status.patch(None, changed()) == {"status": changed()}
    assert node_status.patch(changed(), changed(heartbeat="later")) == {"status": {"heartbeat": "later"}}
    assert node_status.patch(changed(), changed(heartbeat="later", isolation="None")) == {
        "status": {"heartbeat": "later", "isolation": "None"}
    }


def test_time_is_written_as_kubernetes_writes_it_and_read_back() -> None:
    assert node_status.format_time(NOW + 0.9) == "2023-11-14T22:13:20Z"
    assert node_status.parse_time("2023-11-14T22:13:20Z") == NOW


@pytest.mark.parametrize(
    ("gpus", "want"),
    [
        ([], "no GPUs"),
        ([("H100", 81559)], "1 × H100 80Gi"),
        ([("H100", 81920), ("A100", 40960), ("H100", 81920)], "1 × A100 40Gi, 2 × H100 80Gi"),
    ],
)
def test_the_summary_is_one_phrase(gpus: list[tuple[str, int]], want: str) -> None:
    made = [Gpu(uuid=str(i), index=i, gpu_class=name, memory_mib=mib) for i, (name, mib) in enumerate(gpus)]
    assert node_status.summary(made) == want


def test_holders_survive_a_restart_by_the_published_status() -> None:
    view = make_observer().observe(busy(), PODS, NOW)
    assert view.holders is not None
    assert node_status.holders_in(node_status.build(view)) == tuple(view.holders.values())
    assert node_status.holders_in({}) == ()


@pytest.mark.parametrize(
    "broken",
    [None, 7, {}, {"gpus": 1}, {"evidence": "Hearsay"}, {"since": "lately"}, {"gpus": [{"uuid": "a"}]}],
    ids=str,
)
def test_a_published_holder_that_cannot_be_read_is_left_out(broken: Any) -> None:
    whole = node_status.build(make_observer().observe(busy(), PODS, NOW))["holders"]
    entry = whole[0] | broken if isinstance(broken, dict) and broken else broken
    assert len(node_status.holders_in({"holders": [entry, *whole]})) == 1


def test_live_use_is_what_the_driver_shows_of_memory_load_power_and_heat() -> None:
    shown = GpuSample(uuid="GPU-a", used_mib=7, utilization_percent=3, power_milliwatts=412_600, temperature_c=61)
    assert node_status.live_use(shown) == {
        "memoryMiB": 7, "utilizationPercent": 3, "powerWatts": 413, "temperatureCelsius": 61,
    }  # fmt: skip
    assert node_status.live_use(GpuSample(uuid="GPU-a")) == node_status.live_use(None) == {"memoryMiB": 0}


@pytest.mark.parametrize(("agents", "interval_s"), [(1, 15), (1_500, 15), (1_501, 16), (5_000, 50)], ids=str)
def test_heartbeats_are_rarer_in_large_clusters(agents: int, interval_s: int) -> None:
    assert node_status.heartbeat_interval(agents) == interval_s
    assert agents / interval_s <= node_status.HEARTBEATS_PER_S


@pytest.mark.parametrize(
    ("exclusive", "mps", "whole"),
    [(True, False, True), (True, True, False), (False, False, False)],
    ids=["one process at a time", "which is the server of MPS", "open to all"],
)
def test_a_gpu_that_lets_one_process_in_at_a_time_is_not_shared(*, exclusive: bool, mps: bool, whole: bool) -> None:
    view = make_observer().observe((GpuSample(uuid="GPU-a", used_mib=0, exclusive=exclusive), *busy()[1:]), PODS, NOW)
    entry = node_status.build(replace(view, no_compute="" if mps else NO_MPS))["gpus"][0]
    assert (entry["healthy"], entry.get("wholeOnly", False)) == (True, whole)
    assert entry["health"] == (node_status.EXCLUSIVE if whole else "")


def test_a_gpu_that_lets_no_program_in_is_not_handed_out() -> None:
    signs = HealthSigns(prohibited=True)
    view = make_observer().observe(busy(1, signs=signs), PODS, NOW)
    entry = node_status.build(view)["gpus"][0]
    assert (entry["healthy"], entry["drain"]) == (False, False)
    assert entry["health"].startswith("Prohibited: its compute mode lets no program in")
