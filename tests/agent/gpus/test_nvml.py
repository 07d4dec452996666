"""The real nvidia-ml-py and our code above it, on a libnvidia-ml.so.1 that the test builds and scripts."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant_agent.gpus.nvml import class_of

GIB = 1 << 30
TWO_H100 = (
    f"gpu 0 GPU-a|NVIDIA H100 80GB HBM3|{80 * GIB}|{GIB}|00000000:18:00.0",
    f"gpu 1 GPU-b|NVIDIA H100 80GB HBM3|{80 * GIB}|0|00000000:2A:00.0",
)
WELL = {
    "lost": False,
    "reset_required": False,
    "recovery_action": None,
    "remap_pending": False,
    "remap_failed": False,
    "unreadable": "",
    "fabric_up": None,
    "ecc_uncorrected": None,
    "throttled": False,
    "prohibited": False,
}


def gpu(uuid: str, index: int, **changed: Any) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "index": index,
        "gpu_class": "H100",
        "memory_mib": 81408,  # of 80 GiB the driver reserves 512 MiB
        "product": "NVIDIA H100 80GB HBM3",
        "pci_bus_id": {"GPU-a": "00000000:18:00.0", "GPU-b": "00000000:2A:00.0"}[uuid],
        "mig": False,
        "peers": [],
        "parent": "",
        "profile": "",
        "numa_node": 1,
        "minor": index + 4,
        "resource": "",
    } | changed


def sample(uuid: str, **changed: Any) -> dict[str, Any]:
    signs = WELL | changed.pop("signs", {})
    used = {"GPU-a": 1024, "GPU-b": 0}[uuid]
    untold = dict.fromkeys(("utilization_percent", "power_milliwatts", "temperature_c"))
    return {"uuid": uuid, "used_mib": used, **untold, "processes": [], "exclusive": None, "signs": signs} | changed


def test_the_inventory_names_every_gpu_with_its_links(nvml: Callable[..., Any]) -> None:
    process = nvml(*TWO_H100, "linked 0 1", "mig 1 1")
    assert process.ask("inventory") == {
        "simulated": False,
        "driver_version": "580.65.06",
        "gpus": [gpu("GPU-a", 0, peers=["GPU-b"]), gpu("GPU-b", 1, peers=["GPU-a"], mig=True)],
        "unreadable": [],
    }


def test_links_are_read_again_and_what_is_lost_has_none(nvml: Callable[..., Any]) -> None:
    process = nvml(*TWO_H100, "linked 0 1")
    seen = []
    for changed in (("linked 0 1",), (), ("linked 0 1",)):
        process.state(*TWO_H100, *changed)
        process.ask("a minute passes")
        seen.append([one["peers"] for one in process.ask("inventory")["gpus"]])
    assert seen == [[["GPU-b"], ["GPU-a"]], [[], []], [["GPU-b"], ["GPU-a"]]]
    process.state(*TWO_H100)
    assert [one["peers"] for one in process.ask("inventory")["gpus"]] == [["GPU-b"], ["GPU-a"]], "not at every look"


def test_a_node_without_gpus_has_an_empty_inventory_until_there_are_some(nvml: Callable[..., Any]) -> None:
    process = nvml("")
    assert process.ask("inventory")["gpus"] == []
    process.state(*TWO_H100)
    assert process.ask("inventory")["gpus"] == [], "not at every look"
    process.ask("a minute passes")
    assert [one["uuid"] for one in process.ask("inventory")["gpus"]] == ["GPU-a", "GPU-b"]


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        pytest.param((), sample("GPU-a"), id="a quiet GPU, memory without what the driver reserves"),
        pytest.param(("mode 0 3",), sample("GPU-a", exclusive=True), id="open to one process at a time"),
        pytest.param(("mode 0 0",), sample("GPU-a", exclusive=False), id="open to all"),
        pytest.param(
            ("mode 0 2",), sample("GPU-a", exclusive=False, signs={"prohibited": True}), id="open to no program"
        ),
        pytest.param(
            ("power 0 412500", "heat 0 61"),
            sample("GPU-a", power_milliwatts=412500, temperature_c=61),
            id="power and heat",
        ),
        pytest.param(("load 0 37",), sample("GPU-a", utilization_percent=37), id="load"),
        pytest.param(
            ("process 0 11 1048577", "process 0 12 -", "mps 0 13 1048576", "graphics 0 11 1"),
            sample(
                "GPU-a",
                processes=[
                    {"pid": 11, "memory_mib": 2, "sm_percent": None},
                    {"pid": 12, "memory_mib": None, "sm_percent": None},
                    {"pid": 13, "memory_mib": 1, "sm_percent": None},
                ],
            ),
            id="processes of all three lists, once each, rounded up, untold stays untold",
        ),
        pytest.param(
            ("process 0 11 1048576", "process 0 12 1048576", "sm 0 11 90", "sm 0 11 37", "sm 0 99 5"),
            sample(
                "GPU-a",
                processes=[
                    {"pid": 11, "memory_mib": 1, "sm_percent": 37},
                    {"pid": 12, "memory_mib": 1, "sm_percent": None},
                ],
            ),
            id="the newest sample of a process that is there",
        ),
        pytest.param(("remap 0 1 0",), sample("GPU-a", signs={"remap_pending": True}), id="a pending remap"),
        pytest.param(("fabric 0 3",), sample("GPU-a", signs={"fabric_up": True}), id="a fabric that is up"),
        pytest.param(("fabric 0 2",), sample("GPU-a", signs={"fabric_up": False}), id="a fabric in progress"),
        pytest.param(("fabric 0 0",), sample("GPU-a"), id="no fabric"),
        pytest.param(("pages 0 1",), sample("GPU-a", signs={"remap_pending": True}), id="a page that is to be retired"),
        pytest.param(("pages 0 0",), sample("GPU-a"), id="no page is to be retired"),
        pytest.param(("remap 0 0 1",), sample("GPU-a", signs={"remap_failed": True}), id="a failed remap"),
        pytest.param(("ecc 0 3",), sample("GPU-a", signs={"ecc_uncorrected": 3}), id="uncorrected errors"),
        pytest.param(("recovery 0 1",), sample("GPU-a", signs={"recovery_action": 1}), id="a recovery action"),
        pytest.param(("recovery 0 0",), sample("GPU-a", signs={"recovery_action": 0}), id="no recovery action due"),
        pytest.param(("clocks 0 0x40",), sample("GPU-a", signs={"throttled": True}), id="slowed down by heat"),
        pytest.param(("clocks 0 0x4",), sample("GPU-a"), id="a power cap is no fault"),
        pytest.param(("fail 0 nvmlDeviceGetUtilizationRates 4",), sample("GPU-a"), id="no permission is untold"),
    ],
)
def test_a_sample_says_what_the_driver_says(nvml: Callable[..., Any], lines: tuple[str, ...], want: Any) -> None:
    process = nvml(*TWO_H100, *lines)
    process.ask("inventory")
    assert process.ask("samples") == [want, sample("GPU-b")]


@pytest.mark.parametrize(
    ("code", "signs"), [(15, {"lost": True}), (16, {"reset_required": True})], ids=["lost", "reset required"]
)
def test_one_gpu_out_of_reach_does_not_hide_the_other(
    nvml: Callable[..., Any], code: int, signs: dict[str, bool]
) -> None:
    process = nvml(*TWO_H100)
    process.ask("inventory")
    process.state(*TWO_H100, f"error 0 {code}")
    assert process.ask("samples") == [sample("GPU-a", used_mib=None, signs=signs), sample("GPU-b")]
    assert [found["uuid"] for found in process.ask("inventory")["gpus"]] == ["GPU-a", "GPU-b"]


def test_one_gpu_that_cannot_be_read_does_not_hide_the_other(nvml: Callable[..., Any]) -> None:
    process = nvml(*TWO_H100)
    process.ask("inventory")
    process.state(*TWO_H100, "error 0 999")
    assert process.ask("samples") == [
        sample("GPU-a", used_mib=None, signs={"unreadable": "Unknown Error"}),
        sample("GPU-b"),
    ]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        pytest.param("fail 0 nvmlDeviceGetHandleByIndex_v2 15", "GPU 0: GPU is lost", id="lost, without a name"),
        pytest.param("fail 0 nvmlDeviceGetHandleByIndex_v2 999", "GPU 0: Unknown Error", id="an unknown error"),
        pytest.param("fail 0 nvmlDeviceGetName 15", "GPU 0 (GPU-a): it is lost", id="lost in between"),
        pytest.param("fail 0 nvmlDeviceGetName 16", "GPU 0 (GPU-a): it needs a reset", id="to be reset"),
        pytest.param("fail 0 nvmlDeviceGetName 999", "GPU 0 (GPU-a): Unknown Error", id="without a name for people"),
    ],
)
def test_a_gpu_that_cannot_be_listed_hides_no_other_and_is_looked_for_again(
    nvml: Callable[..., Any], broken: str, why: str
) -> None:
    process = nvml(*TWO_H100, broken)
    seen = process.ask("inventory")
    assert (seen["gpus"], seen["unreadable"]) == ([gpu("GPU-b", 1)], [why])
    assert process.ask("samples") == [sample("GPU-b")]
    process.state(*TWO_H100)
    process.ask("a minute passes")
    seen = process.ask("inventory")
    assert (seen["gpus"], seen["unreadable"]) == ([gpu("GPU-a", 0), gpu("GPU-b", 1)], [])


def on_the_bus(
    devices: Path, address: str, *, vendor: str = "0x10de", kind: str = "0x030200", driver: str = "nvidia"
) -> Path:
    device = devices / address
    device.mkdir(parents=True)
    (device / "vendor").write_text(f"{vendor}\n")
    (device / "class").write_text(f"{kind}\n")
    (devices.parent / "drivers" / driver).mkdir(parents=True, exist_ok=True)
    (device / "driver").symlink_to(devices.parent / "drivers" / driver)
    return device


def test_a_gpu_that_the_driver_could_not_set_up_is_told_by_its_address(
    nvml: Callable[..., Any], pci_devices: Path
) -> None:
    """NVIDIA/gpu-operator#643, microsoft/pai#4344: seven GPUs of eight after a reboot, and nobody is told."""
    for address in ("0000:18:00.0", "0000:2a:00.0", "0000:3b:00.0"):
        on_the_bus(pci_devices, address)
    seen = nvml(*TWO_H100).ask("inventory")
    assert seen["gpus"] == [gpu("GPU-a", 0), gpu("GPU-b", 1)]
    assert seen["unreadable"] == ["GPU at 0000:3b:00.0: on the PCI bus, and the driver could not set it up"]


def test_what_the_driver_does_not_have_to_list_is_not_missed(nvml: Callable[..., Any], pci_devices: Path) -> None:
    on_the_bus(pci_devices, "0000:03:00.0", vendor="0x1a03")
    on_the_bus(pci_devices, "0000:04:00.0", kind="0x068000")
    on_the_bus(pci_devices, "0000:05:00.0", driver="vfio-pci")
    (on_the_bus(pci_devices, "0000:06:00.4") / "physfn").symlink_to(pci_devices)
    assert nvml(*TWO_H100).ask("inventory")["unreadable"] == []


def test_nothing_is_missed_if_the_driver_does_not_tell_where_its_gpus_are(
    nvml: Callable[..., Any], pci_devices: Path
) -> None:
    on_the_bus(pci_devices, "0000:18:00.0")
    seen = nvml(*TWO_H100, "fail 0 nvmlDeviceGetPciInfo_v3 3").ask("inventory")
    assert (seen["gpus"][0]["pci_bus_id"], seen["unreadable"]) == ("", [])


def test_if_no_gpu_can_be_listed_the_source_says_why(nvml: Callable[..., Any]) -> None:
    broken = [f"fail {index} nvmlDeviceGetName 999" for index in (0, 1)]
    assert nvml(*TWO_H100, *broken).ask("inventory") == {
        "refused": "NVML cannot list the GPUs: GPU 0 (GPU-a): Unknown Error; GPU 1 (GPU-b): Unknown Error"
    }


def test_an_old_driver_tells_less_and_breaks_nothing(nvml: Callable[..., Any]) -> None:
    process = nvml(*TWO_H100, "process 0 11 1048576", "remap 0 1 0", "linked 0 1", old=True)
    assert process.ask("inventory")["gpus"] == [
        gpu("GPU-a", 0, memory_mib=81920),
        gpu("GPU-b", 1, memory_mib=81920),
    ]
    # Version 1 of the memory call counts the driver's 512 MiB reserve as used.
    assert process.ask("samples") == [sample("GPU-a", used_mib=1536), sample("GPU-b", used_mib=512)]


def test_an_event_is_told_once_with_its_gpu(nvml: Callable[..., Any]) -> None:
    process = nvml(*TWO_H100)
    process.ask("inventory")
    assert process.ask("xid") is None
    process.state(*TWO_H100, "xid 1 79")
    assert process.ask("xid") == {"uuid": "GPU-b", "code": 79}
    assert process.ask("xid") is None


def test_a_lost_gpu_keeps_no_events_of_the_others_back(nvml: Callable[..., Any]) -> None:
    process = nvml(*TWO_H100)
    process.ask("inventory")
    assert process.ask("xid") is None
    process.state(*TWO_H100, "error 0 15", "xid 1 48")
    assert [process.ask("xid") for _ in range(2)] == [None, {"uuid": "GPU-b", "code": 48}]


def test_a_failing_driver_is_an_error_that_names_the_call(nvml: Callable[..., Any]) -> None:
    process = nvml(*TWO_H100)
    process.ask("inventory")
    process.state(*TWO_H100, "error 0 999", "error 1 999")
    assert process.ask("samples") == {"refused": "NVML cannot read the GPUs: Unknown Error"}


def test_a_driver_that_does_not_start_is_a_refusal_with_the_next_step(nvml: Callable[..., Any]) -> None:
    assert nvml(*TWO_H100, "error 0 9").greeting == {
        "refused": "NVML does not start on this node: Driver Not Loaded. Is the NVIDIA driver loaded?"
    }


def test_without_the_library_the_agent_says_what_to_give_it(tmp_path: Path) -> None:
    code = (
        "import pynvml, ctypes\n"
        "def missing(*_): raise OSError('not here')\n"
        "pynvml.CDLL = missing\n"
        "from cotenant_agent.gpus.nvml import NvmlSource\n"
        "NvmlSource()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert "give the agent's pod runtimeClass nvidia and NVIDIA_VISIBLE_DEVICES=all" in ended.stderr


@pytest.mark.parametrize(
    ("product", "want"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 NVL", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla T4", "T4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA RTX A6000", "A6000"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTXPRO6000BlackwellServerEdition"),
        ("", "GPU"),
    ],
)
def test_the_class_is_the_family_of_the_product(product: str, want: str) -> None:
    assert class_of(product) == want


PARTITIONED = (
    "mig 0 1",
    f"instance 0 MIG-1|NVIDIA H100 80GB HBM3 MIG 1g.10gb|{10 * GIB}|{GIB}",
    f"instance 0 MIG-2|NVIDIA H100 80GB HBM3 MIG 3g.40gb|{40 * GIB}|0",
)


def test_instances_stand_in_the_place_of_their_gpu(nvml: Callable[..., Any]) -> None:
    process = nvml(*TWO_H100, "linked 0 1", *PARTITIONED)
    part = {"parent": "GPU-a", "peers": [], "pci_bus_id": "00000000:18:00.0", "mig": False}
    part |= {"numa_node": None, "minor": None, "resource": ""}
    assert process.ask("inventory")["gpus"] == [
        {"uuid": "MIG-1", "index": 100, "gpu_class": "H100-1g.10gb", "memory_mib": 9728, "profile": "1g.10gb",
         "product": "NVIDIA H100 80GB HBM3 MIG 1g.10gb"} | part,
        {"uuid": "MIG-2", "index": 101, "gpu_class": "H100-3g.40gb", "memory_mib": 40448, "profile": "3g.40gb",
         "product": "NVIDIA H100 80GB HBM3 MIG 3g.40gb"} | part,
        gpu("GPU-b", 1, peers=["GPU-a"]),
    ]  # fmt: skip


def uuids(inventory: Any) -> list[str]:
    return [one["uuid"] for one in inventory["gpus"]]


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(PARTITIONED, PARTITIONED[:2], ["MIG-1", "GPU-b"], id="an instance was removed"),
        pytest.param(PARTITIONED[:2], PARTITIONED, ["MIG-1", "MIG-2", "GPU-b"], id="an instance was made"),
        pytest.param(PARTITIONED, PARTITIONED[:1], ["GPU-a", "GPU-b"], id="all instances were removed"),
        pytest.param(PARTITIONED, (), ["GPU-a", "GPU-b"], id="MIG was turned off"),
        pytest.param((), PARTITIONED, ["MIG-1", "MIG-2", "GPU-b"], id="MIG was turned on"),
        pytest.param(
            PARTITIONED, (*PARTITIONED[:2], "fail 0 nvmlDeviceGetMigMode 999"), ["MIG-1", "MIG-2", "GPU-b"],
            id="what cannot be read stays as it was",
        ),
    ],
)  # fmt: skip
def test_a_changed_layout_of_mig_is_seen_without_a_restart(
    nvml: Callable[..., Any], before: tuple[str, ...], after: tuple[str, ...], want: list[str]
) -> None:
    process = nvml(*TWO_H100, *before)
    seen = uuids(process.ask("inventory"))
    process.state(*TWO_H100, *after)
    assert uuids(process.ask("inventory")) == seen, "not at every look"
    process.ask("a minute passes")
    assert uuids(process.ask("inventory")) == want
    assert [one["uuid"] for one in process.ask("samples")] == want


def test_an_instance_has_its_own_memory_and_processes_and_the_health_of_its_gpu(nvml: Callable[..., Any]) -> None:
    process = nvml(*TWO_H100, *PARTITIONED, "process 16 4711 1048576", "remap 0 0 1", "recovery 0 1")
    process.ask("inventory")
    first, second, other = process.ask("samples")
    assert (first["uuid"], first["used_mib"], first["processes"]) == (
        "MIG-1",
        1024,
        [{"pid": 4711, "memory_mib": 1, "sm_percent": None}],
    )
    assert [one["signs"]["remap_failed"] for one in (first, second, other)] == [True, True, False]
    assert [one["signs"]["recovery_action"] for one in (first, second, other)] == [1, 1, None]


def test_after_a_reset_gpus_are_listed_anew_and_events_come_again(
    nvml: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    process = nvml(TWO_H100[0])
    assert [one["uuid"] for one in process.ask("inventory")["gpus"]] == ["GPU-a"]
    assert process.ask("xid") is None
    process.state(*TWO_H100, "xid 0 43")
    assert process.ask("reset GPU-a") == ""
    assert [one["uuid"] for one in process.ask("inventory")["gpus"]] == ["GPU-a", "GPU-b"]
    assert process.ask("xid") == {"uuid": "GPU-a", "code": 43}
