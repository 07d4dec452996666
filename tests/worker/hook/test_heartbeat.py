"""The line of the job's code that a rank stands at, as its side thread tells it."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import heartbeat, main_process
from cotenant_worker.hook.cotenant_shim.heartbeat import main_thread_location


def place_in(files: Sequence[str]) -> str:
    """The reported place while the function of the last file runs. Each file's function calls that of the next one."""
    inner: Any = main_thread_location
    for file in reversed(files):
        space: dict[str, Any] = {"inner": inner}
        exec(compile("def step():\n    return inner()\n", file, "exec"), space)  # noqa: S102 - a function in a file of this name
        inner = space["step"]
    return str(inner())


@pytest.mark.parametrize(
    ("files", "want"),
    [
        pytest.param(["/workspace/train.py", "/usr/lib/python3.11/queue.py"], "train.py:2 in step", id="a library"),
        pytest.param(["main.py", "/workspace/data.py"], "data.py:2 in step", id="a module of the job's"),
        pytest.param(["main.py", "/deps/datasets/arrow.py"], "main.py:2 in step", id="pip install --target"),
        pytest.param(["/tmp/cotenant/work/train.py", "/deps/x.py"], "train.py:2 in step", id="linked code"),
        pytest.param(["/workspace/cotenant-job/train.py"], "train.py:2 in step", id="a folder with our name"),
        pytest.param(["/opt/app/train.py", "/opt/app/data.py"], "data.py:2 in step", id="code of the image"),
    ],
)
def test_a_rank_stands_where_the_jobs_own_code_does(
    files: Sequence[str], want: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTENANT_CODE_DIR", "/workspace")
    monkeypatch.setenv("COTENANT_STATE_DIR", "/tmp/cotenant")
    assert place_in(files) == want


TEXT = "rank 0 uses 1 of its 4 GPUs, from one process. For a process on each say workers: 4 and gpu.count: 1 in the job"


@pytest.mark.parametrize(
    ("held", "steps", "processes", "pod_ranks"),
    [
        pytest.param([5, 0, 0, 0], 19, 1, 1, id="in its first steps"),
        pytest.param([5, 5, 5, 5], 20, 1, 1, id="all of them are used"),
        pytest.param([5, 0, 0, 0], 20, 4, 1, id="other processes use the others"),
        pytest.param([5, 0, 0, 0], 20, 1, 4, id="the other ranks of its pod use the others"),
        pytest.param([0, 0, 0, 0], 20, 1, 1, id="it trains on the CPU"),
    ],
)
def test_gpus_that_are_used_or_may_be_are_no_warning(
    watched: Callable[..., list[Any]], held: list[int], steps: int, processes: int, pod_ranks: int
) -> None:
    assert watched(held, steps, processes, pod_ranks) == []


def test_gpus_that_a_rank_leaves_untouched_are_a_warning_once(watched: Callable[..., list[Any]]) -> None:
    text = f"{TEXT}, or start the program by torchrun; else ask for 1"
    assert watched([5, 0, 0, 0], 20, processes=1, pod_ranks=1) == [("idle-gpus-0", text)]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Any]]:
    """The warnings of a rank whose processes hold so much on its GPUs."""

    def watch(held: list[int], steps: int, processes: int, pod_ranks: int) -> list[Any]:
        cuda = SimpleNamespace(
            is_initialized=lambda: True, device_count=lambda: len(held), max_memory_reserved=held.__getitem__
        )
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
        own = {"STATE_DIR": str(tmp_path), "RESTART": "0", "RANK": "0", "POD_RANKS": str(pod_ranks)}
        for name, value in own.items():
            monkeypatch.setenv(f"COTENANT_{name}", value)
        for pid in range(processes):
            monkeypatch.setattr("os.getpid", lambda pid=pid: pid)
            main_process.note_use("cuda")
        told: list[Any] = []
        played = SimpleNamespace(get_counter=lambda _: steps, warn=lambda *words: told.append(words))
        monkeypatch.setattr(heartbeat, "launcher", played)
        beats = heartbeat.Heartbeat()
        for _ in range(2):
            beats._report_memory()
        return told

    return watch


ENDS = """
import sys, time
import torch.distributed as dist
from cotenant_worker.hook.cotenant_shim import framework_steps, heartbeat

dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
heartbeat._INTERVAL_S = framework_steps._POLL_S = 0
group = dist.group.WORLD
entered = lambda *_: sum(group._get_sequence_number_for_group() for _ in range(10_000))
heartbeat.heartbeat.collectives["torch"] = entered
heartbeat.heartbeat.start(reports=True)
framework_steps.is_training_process = lambda: True
framework_steps.counter_watcher.follow("counter", entered, int)
time.sleep(0.05)
"""


ALONE = """
import os, signal, threading
from cotenant_worker.hook.cotenant_shim import framework_steps, heartbeat

heartbeat.heartbeat.start(reports=True)
framework_steps.is_training_process = lambda: True
framework_steps.counter_watcher.follow("counter", int, int)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
threading.Thread(target=lambda: print("saves after", signal.sigwait({signal.SIGTERM}).name)).start()
os.kill(os.getpid(), signal.SIGTERM)
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join()
print(threading.active_count())
"""


def test_a_program_does_not_see_the_side_threads_and_they_take_none_of_its_signals() -> None:
    """It may wait until it has no other thread, or have one thread that waits for SIGTERM."""
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stdout) == (0, "saves after SIGTERM\n1\n"), done.stderr


def test_a_rank_ends_well_while_its_side_threads_ask_compiled_code(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDS, str(tmp_path / "rendezvous")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
