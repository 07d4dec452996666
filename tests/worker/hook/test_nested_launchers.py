"""Launchers that a rank's own script starts: a torchrun, and DeepSpeed's."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import nested_launchers
from cotenant_worker.hook.cotenant_shim.launcher_client import launcher
from cotenant_worker.hook.cotenant_shim.nested_launchers import classify
from cotenant_worker.host import layout


@pytest.mark.parametrize(
    ("processes", "nodes", "gpus", "world", "want"),
    [
        pytest.param(2, 1, 1, 2, "ranks", id="two processes in each of two ranks with a GPU: they are these ranks"),
        pytest.param(1, 1, 1, 2, "ranks", id="one process in each"),
        pytest.param(4, 2, 1, 8, "ranks", id="four on each of two machines"),
        pytest.param(1, 2, 8, 2, "ranks", id="one process on each of two machines"),
        pytest.param(8, 2, 8, 2, "", id="a rank is a machine with eight GPUs, and they meet"),
        pytest.param(8, 1, 8, 2, "isolated", id="two machines that do not meet"),
        pytest.param(8, 1, 8, 1, "", id="one machine"),
        pytest.param(2, 1, 1, 1, "", id="one rank may do as it likes"),
    ],
)
def test_what_a_torchrun_inside_a_rank_means(processes: int, nodes: int, gpus: int, world: int, want: str) -> None:
    assert classify(processes, nodes, gpus, world) == want


PLACE = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29999"}


@pytest.mark.parametrize(
    ("script", "count", "want"),
    [
        pytest.param(PLACE, 2, PLACE, id="nothing of the script's"),
        pytest.param({"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "17223"}, 1, PLACE, id="for its launcher alone"),
        pytest.param({}, 1, PLACE, id="removed"),
        pytest.param(
            {**PLACE, "RANK": "0", "WORLD_SIZE": "3"}, 3, {**PLACE, "RANK": "0", "WORLD_SIZE": "3"}, id="some"
        ),
    ],
)
def test_a_rank_has_its_place_in_the_job_unless_its_script_makes_a_group_of_some_ranks(
    monkeypatch: pytest.MonkeyPatch, script: dict[str, str], count: int, want: dict[str, str]
) -> None:
    for name in PLACE:
        monkeypatch.delenv(name, raising=False)
    job = {"COTENANT_RANK": "1", "COTENANT_RANKS": "2", "COTENANT_MASTER": "10.0.0.1:29999"}
    for name, value in (job | script).items():
        monkeypatch.setenv(name, value)
    left = {name: script[name] for name in nested_launchers._PLACE if name in script}
    monkeypatch.setattr(nested_launchers, "_place", {"LOCAL_RANK": "1", **left})
    assert nested_launchers._place_among(count) == want


@pytest.mark.parametrize(
    ("how", "place"),
    [
        pytest.param("torch.distributed.run", PLACE, id="torchrun"),
        pytest.param("torch.distributed.launch", PLACE, id="its old name"),
        pytest.param(
            "torch.distributed.run",
            {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "17223"},
            id="after the script has set a place of its own",
        ),
        pytest.param("torch.distributed.run", {"LOCAL_RANK": "1"}, id="after the script has removed the place"),
    ],
)
def test_a_torchrun_in_a_script_becomes_the_rank(tmp_path: Path, how: str, place: dict[str, str]) -> None:
    """It has the rank's place in the job's world, and the marks of the rank's first process."""
    program = tmp_path / "train.py"
    shim = "import cotenant_shim.main_process as of; print(of.is_main_process(), os.getpid())"
    words = f"print(*map(os.environ.get, {[*PLACE]}), sys.argv[1:])"
    program.write_text(f"import os, sys\n{words}\n{shim}\n")
    env = {
        **os.environ,
        "PYTHONPATH": str(layout.HOOK_DIR),
        "COTENANT_STATE_DIR": str(tmp_path),
        "COTENANT_RESTART": "0",
        **{"COTENANT_RANK": "1", "COTENANT_RANKS": "2", "COTENANT_MASTER": "10.0.0.1:29999"},
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        **place,
    }
    command = [sys.executable, "-m", how, "--nproc_per_node=2", "--master_port=5972", str(program), "--lr", "1"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, errors = process.communicate(timeout=120)
    option = ["--local-rank=1"] if how.endswith("launch") else []
    assert out.splitlines() == [f"1 2 1 10.0.0.1 29999 {[*option, '--lr', '1']}", f"True {process.pid}"], errors
    assert f"cotenant: torchrun has no ranks to start here: rank 1 of 2 runs {program}" in errors


@pytest.mark.parametrize(
    ("restarts", "retries", "told"), [(3, "0", True), (3, "", True), (3, "3", False), (0, "0", False)]
)
def test_a_torchrun_in_a_script_that_would_restart_more_often_than_the_job_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], restarts: int, retries: str, told: bool
) -> None:
    for name, value in {"COTENANT_RANK": "0", "COTENANT_RANKS": "2", "TORCHELASTIC_MAX_RESTARTS": retries}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "execvpe", lambda *_: None)
    warned: list[str] = []
    monkeypatch.setattr(launcher, "warn", lambda _, text: warned.append(text))
    nested_launchers._become_rank("torchrun", 2, 1, ["train.py"], restarts=restarts)
    text = "torchrun: max_restarts=3 starts nothing again here: say retries: 3 in the job"
    assert warned == ([text] if told else [])
    assert (text in capsys.readouterr().err) is told


@pytest.mark.parametrize(
    ("notice", "limit", "waits"),
    [
        pytest.param('{"seconds": 295.0}', 30, 295, id="as long as the pod has"),
        pytest.param('{"seconds": 5.0}', 30, 30, id="at least its own default"),
        pytest.param('{"seconds": 295.0}', 60, 60, id="what the program says itself"),
        pytest.param("", 30, 30, id="nobody asked the pod to leave"),
        pytest.param("{", 30, 30, id="a notice that is none"),
    ],
)
def test_torchs_agent_leaves_its_workers_the_time_of_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notice: str, limit: int, waits: int
) -> None:
    closed: list[tuple[Any, ...]] = []
    api = SimpleNamespace(PContext=type("PContext", (), {"close": lambda _self, *given: closed.append(given)}))
    if notice:
        (tmp_path / "preempt").write_text(notice)
    monkeypatch.setenv("COTENANT_PREEMPT_FILE", str(tmp_path / "preempt"))
    nested_launchers.after_worker_processes(api)
    api.PContext().close(15, limit)
    assert closed == [(15, waits)]


def test_torchs_agent_is_the_one_that_is_patched() -> None:
    """The shim takes the agent's default for "not set"."""
    from torch.distributed.elastic.multiprocessing.api import PContext

    default = inspect.signature(PContext.close).parameters["timeout"].default
    assert default == nested_launchers._AGENTS_DEFAULT_S


class ReplacedError(Exception):
    """This process would be another program now."""


@pytest.mark.parametrize(
    ("world", "hosts", "becomes"),
    [
        pytest.param("2", None, True, id="a rank of two"),
        pytest.param("1", None, False, id="the only rank"),
        pytest.param("2", "hosts", False, id="by way of mpirun"),
    ],
)
def test_accelerate_for_one_process_becomes_the_rank_with_its_own_place_and_accelerates_settings(
    monkeypatch: pytest.MonkeyPatch, world: str, hosts: str | None, becomes: bool
) -> None:
    """Its configuration was written for another machine, with numbers of GPUs and a rendezvous address."""
    place = {"COTENANT_RANK": "1", "RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": world, "MASTER_ADDR": "10.0.0.1"}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(nested_launchers, "_place", {"CUDA_VISIBLE_DEVICES": "GPU-1", "MASTER_ADDR": "10.0.0.1"})
    made = {**place, "CUDA_VISIBLE_DEVICES": "0,1", "MASTER_ADDR": "127.0.0.1", "ACCELERATE_MIXED_PRECISION": "bf16"}
    began: list[Any] = []

    def become(_: str, command: list[str], env: dict[str, str]) -> None:
        began.append((command, env))
        raise ReplacedError

    monkeypatch.setattr(os, "execvpe", become)
    launch = SimpleNamespace(
        simple_launcher=lambda _: began.append("as typed"),
        prepare_simple_launcher_cmd_env=lambda _: (["python", "train.py"], made),
    )
    nested_launchers.after_accelerate(launch)
    with contextlib.suppress(ReplacedError):
        launch.simple_launcher(SimpleNamespace(mpirun_hostfile=hosts))
    own = {"CUDA_VISIBLE_DEVICES": "GPU-1", "MASTER_ADDR": "10.0.0.1", "ACCELERATE_MIXED_PRECISION": "bf16"}
    assert began == ([(["python", "train.py"], {**place, **own})] if becomes else ["as typed"])


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        pytest.param("-n 8 train.py --lr 1", [sys.executable, "train.py", "--lr", "1"], id="a script"),
        pytest.param("-m pkg.train", [sys.executable, "-m", "pkg.train"], id="a module"),
        pytest.param("-n 8 -c ./train", ["./train"], id="a command"),
        pytest.param("-n 4 --world_size 8 --node_rank 1 train.py", [sys.executable, "train.py"], id="of two machines"),
    ],
)
def test_a_composer_in_a_script_of_several_ranks_becomes_the_rank(
    monkeypatch: pytest.MonkeyPatch, typed: str, command: list[str]
) -> None:
    """Composer itself would read the rank's variables, and refuse to start eight processes on the fourth of eight
    machines.
    """
    for name, value in {"COTENANT_RANK": "3", "RANK": "3", "WORLD_SIZE": "8", "CUDA_VISIBLE_DEVICES": "GPU-3"}.items():
        monkeypatch.setenv(name, value)
    began: list[Any] = []

    def become(_: str, command: list[str], env: dict[str, str]) -> None:
        began.append((command, env["RANK"]))
        raise ReplacedError

    monkeypatch.setattr(os, "execvpe", become)
    monkeypatch.setattr(sys, "argv", ["composer", *typed.split()])
    composer = SimpleNamespace(_get_parser=parser_of_composer, main=lambda: began.append("as typed"))
    nested_launchers.after_composer(composer)
    with pytest.raises(ReplacedError):
        composer.main()
    assert began == [(command, "3")]


def parser_of_composer() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", "--nproc", type=int)
    parser.add_argument("-m", "--module_mode", action="store_true")
    parser.add_argument("-c", "--command_mode", action="store_true")
    for name in ("--world_size", "--node_rank"):
        parser.add_argument(name, type=int)
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs="...")
    return parser


class DeepSpeed:
    """DeepSpeed's launcher, and what came of its start. `asked`: what its command line says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, world: int, gpus: str, **asked: Any) -> None:
        flags = {"module": False, "no_python": False, "no_local_rank": False}
        defaults = {"num_gpus": -1, "num_nodes": -1, "user_script": "train.py", "user_args": ["--lr", "1"], **flags}
        self.warned: list[str] = []
        self.replaced_by: list[str] = []
        self.sees = ""
        place = {"COTENANT_RANK": "1", "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": str(world)}
        for name, value in {**place, "COTENANT_POD_RANKS": "1", "CUDA_VISIBLE_DEVICES": gpus}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(nested_launchers, "_place", {"LOCAL_RANK": "1"})
        monkeypatch.setattr(launcher, "warn", lambda _, text: self.warned.append(text))
        monkeypatch.setattr(os, "execvpe", self._exec)
        self.runner = SimpleNamespace(parse_args=lambda _: SimpleNamespace(**{**defaults, **asked}), main=self._main)
        nested_launchers.after_deepspeed(self.runner)

    def _exec(self, _: str, command: list[str], env: dict[str, str]) -> None:
        self.replaced_by = command
        raise ReplacedError

    def _main(self, _: None) -> None:
        self.sees = os.environ["CUDA_VISIBLE_DEVICES"]


@pytest.mark.parametrize(
    ("gpus", "pod_ranks", "sees"),
    [
        pytest.param("GPU-1,GPU-2", "1", "0,1", id="all GPUs of the pod"),
        pytest.param("MIG-1", "1", "0", id="an instance of MIG"),
        pytest.param("1,0", "1", "1,0", id="the program has chosen itself"),
        pytest.param("GPU-1,GPU-2", "2", "GPU-1,GPU-2", id="some of the pod's: which ones they are is not known"),
    ],
)
def test_deepspeed_counts_gpus_and_reads_no_uuids(
    monkeypatch: pytest.MonkeyPatch, gpus: str, pod_ranks: str, sees: str
) -> None:
    launch = DeepSpeed(monkeypatch, world=1, gpus=gpus)
    monkeypatch.setenv("COTENANT_POD_RANKS", pod_ranks)
    launch.runner.main()
    assert (launch.sees, launch.warned) == (sees, [])


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        ({}, [sys.executable, "-u", "train.py", "--local_rank=1", "--lr", "1"]),
        ({"module": True, "no_local_rank": True}, [sys.executable, "-u", "-m", "train.py", "--lr", "1"]),
        ({"no_python": True, "num_gpus": 2}, ["train.py", "--local_rank=1", "--lr", "1"]),
    ],
)
def test_a_deepspeed_in_a_script_of_several_ranks_becomes_the_rank(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], command: list[str]
) -> None:
    launch = DeepSpeed(monkeypatch, world=2, gpus="GPU-1", **asked)
    with pytest.raises(ReplacedError):
        launch.runner.main()
    assert launch.replaced_by == command


def test_several_deepspeeds_that_do_not_meet_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = DeepSpeed(monkeypatch, world=2, gpus="GPU-1,GPU-2")
    launch.runner.main()
    [text] = launch.warned
    assert text.startswith(
        "each of the 2 ranks starts a deepspeed of 2 processes that meets no other: ask for a worker"
    )


def test_deepspeed_beside_cotenant_is_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = DeepSpeed(monkeypatch, world=2, gpus="GPU-1")
    monkeypatch.delenv("COTENANT_RANK")
    launch.runner.main()
    assert launch.sees == "GPU-1"


PIP = """
import os, sys, time
def main(args=None):
    print("begins", flush=True)
    if args == ["builds"]:
        os.system(f"{sys.executable} -c 'from pip._internal.cli.main import main; main([])'")
    until = time.monotonic() + float(os.environ["WAITS_FOR_THE_OTHER_S"])
    while time.monotonic() < until and open("log").read().count("begins") < 2:
        time.sleep(0.01)
    print("ends", flush=True)
"""


@pytest.mark.parametrize(
    ("ranks", "waits_s", "lines"),
    [
        pytest.param("2", "0.5", ["begins", "ends", "begins", "ends"], id="ranks of one pod install one by one"),
        pytest.param("1", "20", ["begins", "begins", "ends", "ends"], id="what a rank alone in its pod does at once"),
    ],
)
def test_pip_in_every_rank_of_a_pod(tmp_path: Path, ranks: str, waits_s: str, lines: list[str]) -> None:
    env = pip_of(tmp_path) | {"COTENANT_POD_RANKS": ranks, "WAITS_FOR_THE_OTHER_S": waits_s}
    command = [sys.executable, "-c", "from pip._internal.cli.main import main; main([])"]
    with (tmp_path / "log").open("w") as log:
        started = [subprocess.Popen(command, env=env, stdout=log, cwd=tmp_path) for _ in range(2)]
        assert [process.wait(60) for process in started] == [0, 0]
    assert (tmp_path / "log").read_text().split() == lines


def test_a_pip_that_builds_a_package_starts_another_one(tmp_path: Path) -> None:
    env = pip_of(tmp_path) | {"COTENANT_POD_RANKS": "2", "WAITS_FOR_THE_OTHER_S": "0"}
    command = [sys.executable, "-c", "from pip._internal.cli.main import main; main(['builds'])"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=20)
    assert done.stdout.split() == ["begins", "begins", "ends", "ends"], done.stderr


def pip_of(directory: Path) -> dict[str, str]:
    """The environment of a rank with a pip that takes a moment."""
    home = directory / "pip" / "_internal" / "cli"
    home.mkdir(parents=True)
    for folder in (home, *home.parents[:2]):
        (folder / "__init__.py").touch()
    (home / "main.py").write_text(PIP)
    path = f"{layout.HOOK_DIR}:{directory}"
    state = {"COTENANT_STATE_DIR": str(directory), "COTENANT_RESTART": "0", "COTENANT_RANK": "0", "RANK": "0"}
    return {**os.environ, "PYTHONPATH": path, **state}
