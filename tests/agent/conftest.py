"""The fake NVML library, compiled once per run, and a process that uses it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent / "gpus"


class NvmlProcess:
    """The real nvidia-ml-py on the fake library, in a child; `state` is the world that the library reads."""

    def __init__(self, library: Path, state: Path) -> None:
        self._state = state
        environment = os.environ | {
            "LD_LIBRARY_PATH": str(library.parent),
            "FAKE_NVML_STATE": str(state),
            "PCI_DEVICES": str(state.parent / "devices"),
        }
        self._child = subprocess.Popen(
            [sys.executable, str(HERE / "nvml_child.py")],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.greeting = self._read()

    def state(self, *lines: str) -> None:
        self._state.write_text("\n".join(lines) + "\n")

    def ask(self, request: str) -> Any:
        assert self._child.stdin is not None
        self._child.stdin.write(request + "\n")
        self._child.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._child.stdout is not None
        return json.loads(self._child.stdout.readline())

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Path]:
    """Compiles the library, with all functions or as an old driver has them."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the fake libnvidia-ml.so.1 cannot be built")
    built: dict[bool, Path] = {}

    def library(old: bool) -> Path:
        if old not in built:
            target = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
            flags = ["-DOLD_DRIVER"] if old else []
            subprocess.run([compiler, "-shared", "-fPIC", *flags, "-o", target, HERE / "fake_nvml.c"], check=True)
            built[old] = target
        return built[old]

    return library


@pytest.fixture
def pci_devices(tmp_path: Path) -> Path:
    """Folder of the devices that the kernel shows to a process of `nvml`."""
    return tmp_path / "devices"


@pytest.fixture
def nvml(fake_nvml: Callable[[bool], Path], tmp_path: Path) -> Iterator[Callable[..., NvmlProcess]]:
    """`nvml(line, …)`: a process whose NVML shows these lines. `old=True`: with an old driver."""
    started: list[NvmlProcess] = []

    def start(*lines: str, old: bool = False) -> NvmlProcess:
        state = tmp_path / "state"
        state.write_text("\n".join(lines) + "\n")
        started.append(NvmlProcess(fake_nvml(old), state))
        return started[-1]

    yield start
    for process in started:
        process.close()
