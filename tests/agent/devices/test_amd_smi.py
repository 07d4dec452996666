"""What AMD's program tells is shown, in the forms of several ROCm; what it does not tell takes nothing out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cotenant_agent.devices.amd_smi import READ_S, AmdGpu, AmdSmi, AmdSmiSource, described, gpus_in, measured
from cotenant_agent.gpus.readings import AskedLimit, GpuSample, HealthSigns
from tests.agent.devices.test_extended_resource import MI300X, FakeNode

FAKE = Path(__file__).with_name("fake_amd_smi.py")


def static_of(index: int) -> dict[str, Any]:
    """The output of ROCm 6.4 and 7, shortened."""
    return {
        "gpu": index,
        "asic": {"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002", "asic_serial": f"0x{index}"},
        "bus": {"bdf": f"0000:{index}3:00.0", "max_pcie_width": 16},
        "vram": {"type": "HBM", "size": {"value": 196592, "unit": "MB"}},
        "driver": {"name": "amdgpu", "version": "6.12.12"},
    }


def metric_of(index: int, busy: Any = 87) -> dict[str, Any]:
    return {
        "gpu": index,
        "usage": {"gfx_activity": {"value": busy, "unit": "%"}, "umc_activity": {"value": 41, "unit": "%"}},
        "power": {"socket_power": {"value": 542, "unit": "W"}, "throttle_status": "N/A"},
        "temperature": {"edge": "N/A", "hotspot": {"value": 71, "unit": "C"}, "mem": {"value": 60, "unit": "C"}},
        "ecc": {"total_correctable_count": 3, "total_uncorrectable_count": 1, "cache_correctable_count": "N/A"},
        "mem_usage": {
            "total_vram": {"value": 196592, "unit": "MB"},
            "used_vram": {"value": 121344, "unit": "MB"},
            "free_vram": {"value": 75248, "unit": "MB"},
        },
    }


FIGURES = GpuSample(
    uuid="",
    used_mib=121_344,
    utilization_percent=87,
    power_milliwatts=542_000,
    temperature_c=71,
    signs=HealthSigns(ecc_uncorrected=1),
)


class World:
    """A node of GPUs of AMD with the played program."""

    def __init__(self, folder: Path, number: int, labels: dict[str, str] | None = None) -> None:
        self.folder, self.node, self.now = folder, FakeNode("amd.com/gpu", number, labels), 0.0
        self.program = folder / "amd-smi"
        self.program.write_text(f'#!/bin/sh\nFAKE_AMD_SMI={folder} exec {sys.executable} {FAKE} "$@"\n')
        self.program.chmod(0o755)
        self.tell("static", {"gpu_data": [static_of(index) for index in range(number)]})
        self.tell("metric", {"gpu_data": [metric_of(index) for index in range(number)]})
        self.source = AmdSmiSource(self.node.source(), AmdSmi(str(self.program)), clock=lambda: self.now)

    def tell(self, about: str, document: Any) -> None:
        (self.folder / f"{about}.json").write_text(json.dumps(document))


def test_devices_have_the_class_the_memory_and_the_address_that_the_program_shows(tmp_path: Path) -> None:
    world = World(tmp_path, 2)
    inventory = world.source.inventory()
    assert [(gpu.gpu_class, gpu.memory_mib, gpu.pci_bus_id, gpu.resource) for gpu in inventory.gpus] == [
        ("MI300X", 196_592, "0000:03:00.0", "amd.com/gpu"),
        ("MI300X", 196_592, "0000:13:00.0", "amd.com/gpu"),
    ]
    assert inventory.driver_version == "6.12.12"
    plain = FakeNode("amd.com/gpu", 2).source().inventory()
    assert [gpu.uuid for gpu in inventory.gpus] == [gpu.uuid for gpu in plain.gpus], "turning it on renames no device"


def test_a_class_that_labels_name_stays(tmp_path: Path) -> None:
    gpus = World(tmp_path, 1, MI300X | {"amd.com/gpu.product-name": "AMD_Instinct_MI308X"}).source.inventory().gpus
    assert [(gpu.gpu_class, gpu.product) for gpu in gpus] == [("MI308X", "AMD_Instinct_MI308X")]


def test_live_use_is_of_no_pod_and_is_read_every_ten_seconds(tmp_path: Path) -> None:
    world = World(tmp_path, 2)
    gpus = world.source.inventory().gpus
    first, second = world.source.samples()
    assert (first, second) == tuple(
        GpuSample(
            uuid=gpu.uuid,
            used_mib=FIGURES.used_mib,
            utilization_percent=87,
            power_milliwatts=542_000,
            temperature_c=71,
            signs=FIGURES.signs,
        )
        for gpu in gpus
    )
    world.tell("metric", [metric_of(0, 5), metric_of(1, "N/A")])
    assert world.source.samples()[0].utilization_percent == 87
    world.now = READ_S
    assert [one.utilization_percent for one in world.source.samples()] == [5, None]


def test_how_many_are_handed_out_is_what_the_kubelet_says(tmp_path: Path) -> None:
    world = World(tmp_path, 2)
    world.source.inventory()
    world.node.allocatable["amd.com/gpu"] = "1"
    assert [one.uuid for one in world.source.samples()] == [world.source.inventory().gpus[0].uuid]


@pytest.mark.parametrize("fault", ["no program", "no driver", "no JSON", "no list", "partitions"])
def test_without_the_programs_word_devices_are_as_the_kubelet_has_them(
    tmp_path: Path, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, 2)
    plain = world.node.source()
    match fault:
        case "no program":
            world.program.unlink()
        case "no driver":
            (tmp_path / "static.json").unlink()
        case "no JSON":
            (tmp_path / "static.json").write_text("WARNING: AMDSMI")
        case "no list":
            world.tell("static", {"gpu_data": "none"})
        case "partitions":
            world.tell("static", {"gpu_data": [static_of(index) for index in range(16)]})
    for _ in range(2):
        assert world.source.inventory() == plain.inventory()
        assert world.source.samples() == plain.samples()
    assert len(caplog.records) == (0 if fault == "partitions" else 1)


def test_figures_that_stop_coming_take_no_device_out(tmp_path: Path) -> None:
    world = World(tmp_path, 2)
    world.source.inventory()
    (tmp_path / "metric.json").unlink()
    assert world.source.samples() == world.node.source().samples()


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (metric_of(0), FIGURES),
        ({"gpu": 0}, GpuSample(uuid="")),
        ({"gpu": 0, "usage": "N/A", "power": {"socket_power": "N/A"}, "mem_usage": None}, GpuSample(uuid="")),
        ({"usage": {"gfx_activity": 64}}, GpuSample(uuid="", utilization_percent=64)),
        ({"temperature": {"edge": "47 C"}}, GpuSample(uuid="", temperature_c=47)),
        ({"mem_usage": {"used_vram": {"value": 2, "unit": "GB"}}}, GpuSample(uuid="", used_mib=2048)),
        ({"usage": {"gfx_activity": True}, "power": {"socket_power": -1}}, GpuSample(uuid="")),
        ({"usage": {"gfx_activity": {"value": 250}}}, GpuSample(uuid="", utilization_percent=100)),
        ({"mem_usage": {"used_vram": 1e300}}, GpuSample(uuid="")),
    ],
    ids=str,
)  # fmt: skip
def test_figures_are_read_in_every_form_and_nonsense_is_not_known(document: dict[str, Any], found: GpuSample) -> None:
    assert measured(document) == found


def test_a_description_lacks_what_the_program_does_not_say() -> None:
    assert described({"gpu": 0}) == AmdGpu()
    assert described(
        {"asic": {"market_name": "N/A"}, "vram": {"size": "N/A"}, "driver": {"driver_version": "6.7"}}
    ) == (AmdGpu(driver="6.7"))
    assert gpus_in([{"gpu": 1}, {"gpu": "2"}, {"gpu": True}, 3]) == {1: {"gpu": 1}}


def test_what_it_cannot_do_the_kubelets_devices_cannot_either(tmp_path: Path) -> None:
    source = World(tmp_path, 1).source
    (gpu,) = source.inventory().gpus
    assert (source.can_read_limits(), source.memory_limit(AskedLimit("pod", gpu.uuid, "/"))) == (False, None)
    assert source.reset(gpu.uuid) == "devices of amd.com/gpu are reset by their maker's tools"
    assert source.wait_for_xid(0) is None
