"""GPUs that the CUDA driver shows, through a stand-in for its library."""

# ruff: noqa: N802 - the functions of libcuda have these names
from __future__ import annotations

import ctypes
import json
import os
import sys
import uuid
from typing import Any

import pytest

from cotenant_worker.ranks import visible_gpus

A, B = "11111111-0000-0000-0000-00000000000a", "22222222-0000-0000-0000-00000000000b"


class Cuda:
    """libcuda.so.1 with these GPUs: UUID without a prefix → total bytes. `failing`: the call that returns 100."""

    def __init__(self, gpus: dict[str, int], failing: str = "") -> None:
        self.gpus = list(gpus.items())
        self.failing = failing
        self.current = -1
        self.retained: list[int] = []
        self.released: list[int] = []

    def code(self, name: str) -> int:
        return 100 if name == self.failing else 0

    def cuInit(self, _flags: int) -> int:
        return self.code("cuInit")

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return self.code("cuDeviceGetCount")

    def cuDeviceGet(self, device: Any, index: int) -> int:
        device._obj.value = index
        return self.code("cuDeviceGet")

    def cuDeviceGetUuid_v2(self, raw: Any, device: Any) -> int:
        raw._obj[:] = uuid.UUID(self.gpus[device.value][0]).bytes
        return self.code("cuDeviceGetUuid")

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        context._obj.value = device.value + 1
        self.retained.append(device.value)
        return self.code("cuDevicePrimaryCtxRetain")

    def cuCtxSetCurrent(self, context: Any) -> int:
        self.current = context.value - 1
        return self.code("cuCtxSetCurrent")

    def cuMemGetInfo_v2(self, free: Any, total: Any) -> int:
        free._obj.value, total._obj.value = 1, self.gpus[self.current][1]
        return self.code("cuMemGetInfo")

    def cuDevicePrimaryCtxRelease_v2(self, device: Any) -> int:
        self.released.append(device.value)
        return 0

    def cuGetErrorName(self, code: int, name: Any) -> int:
        name._obj.value = b"CUDA_ERROR_NO_DEVICE" if self.failing == "cuInit" else None
        return 0


def test_gpus_are_listed_in_cudas_order_with_their_memory_and_no_context_is_left() -> None:
    cuda = Cuda({B: 80 << 30, A: 40 << 30})
    assert list(visible_gpus.visible(cuda).items()) == [(f"GPU-{B}", 80 << 30), (f"GPU-{A}", 40 << 30)]
    assert (cuda.retained, cuda.released) == ([0, 1], [0, 1])


@pytest.mark.parametrize(
    ("failing", "message"),
    [
        ("cuInit", "cuInit: CUDA_ERROR_NO_DEVICE"),
        ("cuDeviceGetCount", "cuDeviceGetCount: 100"),
        ("cuDeviceGet", "cuDeviceGet: 100"),
        ("cuDeviceGetUuid", "cuDeviceGetUuid: 100"),
        ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain: 100"),
        ("cuCtxSetCurrent", "cuCtxSetCurrent: 100"),
        ("cuMemGetInfo", "cuMemGetInfo: 100"),
    ],
)
def test_a_call_that_fails_is_named(failing: str, message: str) -> None:
    with pytest.raises(visible_gpus.DriverError) as raised:
        visible_gpus.visible(Cuda({A: 1}, failing))
    assert str(raised.value) == message


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *uuids: str) -> Any:
    """The JSON that the program prints when it is asked for these."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "before")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "before")
    monkeypatch.setattr(sys, "argv", ["visible_gpus", *uuids])
    visible_gpus.main()
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("uuids", "want"),
    [
        pytest.param([], {f"GPU-{A}": 7, f"GPU-{B}": 9}, id="all"),
        pytest.param([f"GPU-{B}"], {f"GPU-{B}": 9}, id="one"),
        pytest.param([f"MIG-{A}", "GPU-gone"], {f"MIG-{A}": 7}, id="a slice by its own name, and one that is not here"),
    ],
)
def test_gpus_are_printed_under_the_names_that_they_were_asked_for_by(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], uuids: list[str], want: dict[str, int]
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: {"libcuda.so.1": Cuda({A: 7, B: 9})}[name])
    assert printed(monkeypatch, capsys, *uuids) == want


def test_cuda_shows_only_the_gpus_that_were_asked_for_in_the_order_of_the_bus(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[str | None, str | None]] = []

    def load(_name: str) -> Cuda:
        seen.append((os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER")))
        return Cuda({})

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert printed(monkeypatch, capsys, "GPU-a", "GPU-b") == {}
    assert seen == [("GPU-a,GPU-b", "PCI_BUS_ID")]


def test_without_a_driver_the_runtime_class_is_suspected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(SystemExit) as ended:
        printed(monkeypatch, capsys)
    assert ended.value.code == (
        "libcuda.so.1: cannot open shared object file (is the pod's runtimeClass the one of the NVIDIA runtime?)"
    )


def test_an_error_of_the_driver_is_told_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_cuda: Any) -> Any:
        raise visible_gpus.DriverError("cuInit: CUDA_ERROR_UNKNOWN")

    monkeypatch.setattr(ctypes, "CDLL", lambda _name: None)
    monkeypatch.setattr(visible_gpus, "visible", fails)
    with pytest.raises(SystemExit) as ended:
        printed(monkeypatch, capsys)
    assert ended.value.code == "cuInit: CUDA_ERROR_UNKNOWN"
