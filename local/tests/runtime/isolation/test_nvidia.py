"""Device nodes of real GPUs."""

from pathlib import Path

import pytest

from cotenant_local.runtime.isolation import nvidia


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        (None, []),
        ("", []),
        ("void", []),
        ("none", []),
        ("GPU-b", ["nvidiactl", "nvidia0"]),
        ("GPU-a,GPU-b", ["nvidiactl", "nvidia1", "nvidia0"]),
        ("0", ["nvidiactl", "nvidia1"]),
        ("all", ["nvidiactl", "nvidia1", "nvidia0"]),
        ("GPU-simulated", []),
    ],
)
def test_a_gpu_pod_sees_the_device_nodes_of_its_gpus_and_no_others(
    tmp_path: Path, asked: str | None, want: list[str]
) -> None:
    for bus, uuid, minor in (("0000:01:00.0", "GPU-a", 1), ("0000:02:00.0", "GPU-b", 0)):
        (tmp_path / "gpus" / bus).mkdir(parents=True)
        information = f"Model: \t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
        (tmp_path / "gpus" / bus / "information").write_text(information)
    (tmp_path / "dev").mkdir()
    for name in ("nvidiactl", "nvidia0", "nvidia1"):
        (tmp_path / "dev" / name).touch()
    env = {} if asked is None else {"NVIDIA_VISIBLE_DEVICES": asked}
    got = nvidia.devices(env, tmp_path / "gpus", tmp_path / "dev")
    assert [device["target"] for device in got] == [f"/dev/{name}" for name in want]


def test_mig_devices_are_left_to_cdi() -> None:
    with pytest.raises(nvidia.GpuError, match="MIG-x: MIG devices are given by CDI only"):
        nvidia.nodes({"NVIDIA_VISIBLE_DEVICES": "GPU-a,MIG-x"}, [])
