"""Limits of cgroups through our binding, on a libnvidia-ml.so.1 that the test builds and scripts."""

from collections.abc import Callable
from typing import Any

import pytest

MIB = 1 << 20
GPU = f"gpu 0 GPU-a|NVIDIA H100 80GB HBM3|{80 << 30}|0|18"
LEAF = "/sys/fs/cgroup/leaf"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        pytest.param((f"limit 0 {LEAF} {MIB} {9 * MIB} {3 * MIB}",), {"hard_mib": 9, "used_mib": 3}, id="a limit"),
        pytest.param((f"limit 0 {LEAF} 0 max {MIB}",), {"hard_mib": None, "used_mib": 1}, id="max is none"),
        pytest.param((f"limit 0 {LEAF}/other 0 {MIB} 0",), {"hard_mib": None, "used_mib": None}, id="not of this leaf"),
        pytest.param(
            ("fail 0 nvmlDeviceGetMemoryLimits_v1 3",), {"hard_mib": None, "used_mib": None}, id="none, without dmem"
        ),
        pytest.param(("fail 0 nvmlDeviceGetMemoryLimits_v1 4",), None, id="no permission"),
        pytest.param(("fail 0 nvmlDeviceGetMemoryLimits_v1 15",), None, id="the GPU is lost"),
        pytest.param(("fail 0 nvmlDeviceGetMemoryLimits_v1 999",), None, id="an error that nobody knows"),
    ],
)
def test_what_the_driver_has_is_read_and_what_it_refuses_is_not_known(
    nvml: Callable[..., Any], lines: tuple[str, ...], found: dict[str, int | None] | None
) -> None:
    process = nvml(GPU, *lines)
    process.ask("inventory")
    assert process.ask(f"limit GPU-a {LEAF}") == [True, found]
    assert process.ask(f"limit GPU-unknown {LEAF}") == [True, None]


def test_an_older_driver_cannot_be_asked(nvml: Callable[..., Any]) -> None:
    process = nvml(GPU, f"limit 0 {LEAF} 0 {MIB} 0", old=True)
    process.ask("inventory")
    assert process.ask(f"limit GPU-a {LEAF}") == [False, None]
