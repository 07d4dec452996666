"""Limits of GPU memory in a tenant's interpreter, through stand-ins for torch and TensorFlow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import memory
from cotenant_worker.hook.cotenant_shim.imports import EXIT_QUOTA
from cotenant_worker.host import layout

GIB = 1 << 30
LIMITS = {
    "GPU-a": {"pool": 20 * GIB, "total": 80 * GIB, "quota": 21 * GIB, "processes": 1},
    "GPU-b": {"pool": 40 * GIB, "total": 80 * GIB, "quota": 41 * GIB, "processes": 1},
}


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`limited(UUID, …)`: the process has the limits of these GPUs."""

    def limit(*uuids: str, **changed: int) -> None:
        monkeypatch.setenv("COTENANT_LIMITS", json.dumps({uuid: LIMITS[uuid] | changed for uuid in uuids}))

    monkeypatch.delenv("COTENANT_LIMITS", raising=False)
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return limit


@pytest.mark.parametrize(
    ("before", "want"),
    [
        ("", "per_process_memory_fraction:0.400000"),
        ("expandable_segments:True", "expandable_segments:True,per_process_memory_fraction:0.400000"),
        (
            "per_process_memory_fraction:1.0,max_split_size_mb:64",
            "max_split_size_mb:64,per_process_memory_fraction:0.400000",
        ),
    ],
)
def test_our_limit_is_last_among_the_allocators_settings(before: str, want: str) -> None:
    assert memory.merged_alloc_conf(before, 0.4) == want


def torch_at(version: str, directory: Path) -> Any:
    (directory / "version.py").write_text(f"__version__ = '{version}+cu128'\n")
    return SimpleNamespace(origin=str(directory / "__init__.py"))


def allocator_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("PYTORCH_")}


@pytest.mark.parametrize(
    ("version", "before", "want"),
    [
        ("2.10.0", {}, {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.250000"}),
        ("3.0.1", {}, {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.250000"}),
        ("2.9.1", {}, {}),
        (
            "2.10.0",
            {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"},
            {
                "PYTORCH_CUDA_ALLOC_CONF": "backend:native",
                "PYTORCH_ALLOC_CONF": "backend:native,per_process_memory_fraction:0.250000",
            },
        ),
    ],
)
def test_the_tightest_limit_is_a_setting_of_an_allocator_that_knows_it(
    limited: Callable[..., None], tmp_path: Path, version: str, before: dict[str, str], want: dict[str, str]
) -> None:
    limited("GPU-b", "GPU-a")
    os.environ.update(before)
    memory.before_torch(torch_at(version, tmp_path))
    assert allocator_settings() == want


@pytest.mark.usefixtures("limited")
def test_without_limits_the_allocator_has_no_setting(tmp_path: Path) -> None:
    memory.before_torch(torch_at("2.10.0", tmp_path))
    assert allocator_settings() == {}


class Cuda:
    """torch.cuda with GPUs of 80 GiB; `fractions` are the limits that were set, by index."""

    def __init__(self, *uuids: str, fails: bool = False) -> None:
        self.uuids = uuids
        self.fails = fails
        self.fractions: list[tuple[float, Any]] = []

    def _lazy_call(self, call: Callable[[], None]) -> None:
        call()

    def device_count(self) -> int:
        return len(self.uuids)

    def current_device(self) -> int:
        return 0

    def get_device_properties(self, index: int) -> Any:
        return SimpleNamespace(uuid=self.uuids[index])

    def mem_get_info(self, _index: int) -> tuple[int, int]:
        return 0, 80 * GIB

    def set_per_process_memory_fraction(self, fraction: float, device: Any = None) -> None:
        if self.fails:
            raise RuntimeError("CUDA error")
        self.fractions.append((fraction, device))


class Rank:
    """The launcher and the heartbeat of this process; `log` is its output."""

    def __init__(self) -> None:
        self.reported: list[list[str]] = []
        self.warnings: list[tuple[str, str]] = []
        self.log: list[str] = []
        self.starts = 0

    def report_gpus(self, uuids: list[str]) -> None:
        self.reported.append(uuids)

    def warn(self, key: str, text: str) -> None:
        self.warnings.append((key, text))

    def start(self) -> None:
        self.starts += 1


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Rank:
    rank = Rank()
    monkeypatch.setattr(memory, "launcher", rank)
    monkeypatch.setattr(memory, "heartbeat", rank)
    monkeypatch.setattr(memory, "log_line", rank.log.append)
    monkeypatch.setattr(memory, "is_main_process", lambda: True)
    monkeypatch.setattr("os._exit", sys.exit)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.delenv("COTENANT_RANK", raising=False)
    return rank


def use_cuda(monkeypatch: pytest.MonkeyPatch, cuda: Cuda) -> Cuda:
    torch = SimpleNamespace(cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", torch)
    memory.after_torch(torch)
    return cuda


@pytest.mark.parametrize(
    ("limits", "visible", "fractions"),
    [
        pytest.param(["GPU-a", "GPU-b"], ["b", "a"], [(0.5, 0), (0.25, 1)], id="each by its UUID"),
        pytest.param(["GPU-a"], ["other name"], [(0.25, 0)], id="one limit holds for the one GPU whatever its name"),
        pytest.param(["GPU-a", "GPU-b"], ["c"], [], id="a GPU without a limit"),
        pytest.param([], ["a"], [], id="nothing is limited"),
    ],
)
def test_the_pools_of_visible_gpus_are_limited_and_the_gpus_reported(
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    limits: list[str],
    visible: list[str],
    fractions: list[tuple[float, int]],
) -> None:
    rank: Rank = request.getfixturevalue("rank")
    request.getfixturevalue("limited")(*limits)
    assert use_cuda(monkeypatch, Cuda(*visible)).fractions == fractions
    assert (rank.reported, rank.starts) == ([[f"GPU-{uuid}" for uuid in visible]], 1)


def test_a_program_may_lower_its_limit_and_not_raise_it(
    monkeypatch: pytest.MonkeyPatch, rank: Rank, limited: Callable[..., None]
) -> None:
    limited("GPU-a", "GPU-b")
    cuda = use_cuda(monkeypatch, Cuda("a", "b"))
    cuda.fractions.clear()
    for fraction, device in ((1.0, None), (0.1, 0), (0.9, SimpleNamespace(index=1)), (0.7, 5)):
        cuda.set_per_process_memory_fraction(fraction, device)
    assert [fraction for fraction, _ in cuda.fractions] == [0.25, 0.1, 0.5, 0.7]


def test_a_limit_that_cannot_be_set_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, rank: Rank, limited: Callable[..., None]
) -> None:
    limited("GPU-a")
    with pytest.raises(SystemExit) as ended:
        use_cuda(monkeypatch, Cuda("a", fails=True))
    assert (ended.value.code, rank.log) == (
        EXIT_QUOTA,
        ["the GPU memory limit could not be set: RuntimeError: CUDA error"],
    )


@pytest.mark.parametrize(("processes", "warned"), [(1, True), (2, False)])
def test_a_second_process_of_a_rank_that_may_take_the_whole_limit_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, rank: Rank, limited: Callable[..., None], processes: int, warned: bool
) -> None:
    limited("GPU-a", processes=processes)
    monkeypatch.setattr(memory, "is_main_process", lambda: False)
    use_cuda(monkeypatch, Cuda("a"))
    text = "rank 3 uses its GPU from several processes, and each may take the whole limit:"
    text += " say how many there are in runtime.gpuProcesses"
    assert rank.warnings == ([("processes-3", text)] if warned else [])
    assert (rank.reported, rank.starts) == ([], 0)


def tensorflow(fails: bool = False) -> Any:
    """TensorFlow's module with two GPUs; `limits` are what was set."""
    limits: list[tuple[str, list[int]]] = []

    def configure(device: str, pieces: list[int]) -> None:
        if fails:
            raise RuntimeError("already initialized")
        limits.append((device, pieces))

    config = SimpleNamespace(
        list_physical_devices=lambda kind: [f"{kind}:0", f"{kind}:1"],
        LogicalDeviceConfiguration=lambda memory_limit: memory_limit,
        set_logical_device_configuration=configure,
        experimental=SimpleNamespace(set_memory_growth=lambda *_: limits.append(("growth", []))),
    )
    return SimpleNamespace(config=config, limits=limits)


def test_tensorflows_devices_have_their_pools_in_mib_and_do_not_grow(rank: Rank, limited: Callable[..., None]) -> None:
    limited("GPU-a", "GPU-b")
    tf = tensorflow()
    memory.after_tensorflow(tf)
    tf.config.experimental.set_memory_growth("GPU:0", True)
    assert tf.limits == [("GPU:0", [20 << 10]), ("GPU:1", [40 << 10])]


def test_each_device_has_the_limit_of_its_own_gpu_in_the_order_in_which_they_are_shown(
    rank: Rank, limited: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    limited("GPU-a", "GPU-b")
    for shown, want in (
        ("GPU-b,GPU-a", [("GPU:0", [40 << 10]), ("GPU:1", [20 << 10])]),
        ("GPU-whole,GPU-a", [("GPU:1", [20 << 10])]),
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
        tf = tensorflow()
        memory.after_tensorflow(tf)
        assert tf.limits == want


def test_tensorflow_that_cannot_be_limited_ends(rank: Rank, limited: Callable[..., None]) -> None:
    limited("GPU-a")
    with pytest.raises(SystemExit) as ended:
        memory.after_tensorflow(tensorflow(fails=True))
    assert (ended.value.code, rank.log) == (
        EXIT_QUOTA,
        ["the GPU memory limit of TensorFlow could not be set: RuntimeError: already initialized"],
    )


@pytest.mark.parametrize(
    ("ranks", "own", "written", "seen"),
    [
        pytest.param("2", "GPU-b", "0", "GPU-b", id="LOCAL_RANK, which is 0 in both"),
        pytest.param("2", "GPU-b", "1", "GPU-b", id="RANK"),
        pytest.param("2", "GPU-a,GPU-b", "1", "GPU-b", id="LOCAL_RANK, where a rank sees its whole pod"),
        pytest.param("2", "GPU-a,GPU-b", "7", "7", id="a GPU that it does not have"),
        pytest.param("2", "GPU-b", "0,1,2,3", "GPU-b", id="all GPUs of a machine, of which it has one"),
        pytest.param("2", "GPU-c,GPU-d", "2,3", "GPU-c,GPU-d", id="as many as it has, counted on a machine"),
        pytest.param("2", "GPU-c,GPU-d", "1,0", "GPU-d,GPU-c", id="in another order"),
        pytest.param("2", "GPU-b", "GPU-b", "GPU-b", id="names"),
        pytest.param("2", "GPU-b", "", "", id="no GPU"),
        pytest.param("2", "GPU-b", None, "GPU-b", id="removed"),
        pytest.param("1", "GPU-b", None, None, id="removed by the only rank of its pod"),
        pytest.param("1", "GPU-b", "0", "0", id="the only rank of its pod"),
        pytest.param("2", "", "0", "0", id="a rank without GPUs"),
    ],
)
def test_numbers_that_a_program_writes_mean_the_gpus_of_its_rank(
    monkeypatch: pytest.MonkeyPatch, ranks: str, own: str, written: str | None, seen: str | None
) -> None:
    """Eight ranks of one pod would all take its first GPU (torchrec's and Keras's programs write LOCAL_RANK there)."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    place = {"COTENANT_POD_RANKS": ranks, "COTENANT_GPUS": own, "CUDA_VISIBLE_DEVICES": written}
    for name, value in place.items():
        if value is not None:
            monkeypatch.setenv(name, value)
    cuda = SimpleNamespace(_cuda_init=lambda: os.environ.get("CUDA_VISIBLE_DEVICES"))
    memory.after_torch(SimpleNamespace(_C=cuda))
    assert (cuda._cuda_init(), os.environ.get("CUDA_VISIBLE_DEVICES")) == (seen, written)


@pytest.mark.parametrize("written", [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "0,1"}, {}], ids=str)
def test_numbers_that_a_run_script_writes_are_names_from_the_start(tmp_path: Path, written: dict[str, str]) -> None:
    rank = {"COTENANT_POD_RANKS": "2", "COTENANT_GPUS": "GPU-b", "COTENANT_STATE_DIR": str(tmp_path), "RANK": "1"}
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(layout.HOOK_DIR), **written, **rank}
    shows = [sys.executable, "-c", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"]
    assert subprocess.run(shows, env=env, capture_output=True, text=True, check=True).stdout == "GPU-b\n"
