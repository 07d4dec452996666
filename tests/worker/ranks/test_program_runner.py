"""A rank's program, run as if Python had been started with it."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cotenant_worker.host import layout
from cotenant_worker.ranks import program_runner
from cotenant_worker.supervision.traceback_excerpt import error_line
from tests.worker.processes import behave, launched

RUN = """
import sys
from cotenant_worker.ranks.program import Program
from cotenant_worker.ranks.program_runner import run
sys.exit(run(Program("script", tuple(sys.argv[1:]))))
"""


def run_program(directory: Path, text: str) -> "subprocess.CompletedProcess[str]":
    (directory / "train.py").write_text(text)
    command = [sys.executable, "-c", RUN, "train.py"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=120)


HOOK = """
import sys
sys.excepthook = lambda *error: sys.__excepthook__(*error)  # as torch does, to put the rank in front
def load():
    raise ValueError("empty")
load()
"""


def test_a_hook_that_calls_the_interpreters_own_shows_nothing_of_ours_either(tmp_path: Path) -> None:
    done = run_program(tmp_path, HOOK)
    assert done.returncode == 1
    assert "cotenant_worker" not in done.stderr
    assert error_line(done.stderr.splitlines()) == ("ValueError: empty", "train.py:5, in load")


def test_a_crash_of_native_code_names_the_line_that_led_there(tmp_path: Path) -> None:
    done = run_program(tmp_path, "import ctypes\ndef peek():\n    ctypes.string_at(0)\npeek()\n")
    assert done.returncode == -signal.SIGSEGV
    assert error_line(done.stderr.splitlines()) == ("Fatal Python error: Segmentation fault", "train.py:3, in peek")


def test_of_many_files_beside_a_program_only_those_are_looked_at_that_could_be_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at each takes minutes on a network volume."""
    for name in ("yaml", "packaging", "tokenize.py", *(f"{number}.jpg" for number in range(50))):
        (tmp_path / name).touch()
    looks: list[str] = []

    def look(path: Path) -> bool:
        looks.append(path.parent.name)
        return path.parent.name == "yaml"

    monkeypatch.setattr(Path, "is_file", look)
    assert program_runner._modules_in(tmp_path, {"yaml", "packaging", "tokenize", "numpy"}) == {"yaml", "tokenize"}
    assert sorted(looks) == ["packaging", "yaml"]


HERE = Path(__file__).parents[1] / "hook"
"""Where `facts.py` lies."""
PLATFORMS_OWN = re.compile(
    r"COTENANT_.*|TORCHELASTIC_.*|HOROVOD_.*|JAX_.*|KERAS_DISTRIBUTION_.*|.*RANK|.*WORLD_SIZE|ROLE_NAME|MASTER_.*"
    r"|CUDA_(VISIBLE_DEVICES|DEVICE_ORDER)|ACCELERATE_MIXED_PRECISION|OMP_NUM_THREADS|PYTHON(PATH|UNBUFFERED|FAULTHANDLER)"
    r"|(GLOO|NCCL)_SOCKET_IFNAME|RAY_worker_niceness|SUBMITIT_PREEMPT_SIGNAL|USER|POD_IP"
)
"""The variables of a rank in docs/worker.md, and what PID 1 of a test has."""


def seen_by_a_rank(directory: Path, command: tuple[str, ...], *, warm: bool) -> dict[str, Any]:
    job = replace(behave(), command=command)
    job = replace(job, platform={"codePath": str(HERE), "warmStart": warm})
    directory.mkdir()
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    with launched(directory, job.to_json(), HOME=str(directory), PATH=path, ASKED="yes", LANG="C.UTF-8") as pod:
        code, log, _ = pod.finish()
    assert code == 0, log
    return seen(directory)


def seen_in_plain_python(directory: Path, command: tuple[str, ...]) -> dict[str, Any]:
    directory.mkdir()
    env = {"HOME": str(directory), "PATH": "/usr/bin:/bin", "ASKED": "yes", "LANG": "C.UTF-8"}
    # As a fresh process has them: a run in the background of a shell would ignore these signals.
    argv = ["env", "--default-signal=INT,QUIT", sys.executable, "-u", *command[1:]]
    subprocess.run(argv, cwd=HERE, env=env, stdin=subprocess.DEVNULL, check=True, start_new_session=True)
    return seen(directory)


def seen(directory: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((directory / "facts.json").read_text())
    added = facts.pop("environment")
    facts["environment"] = {
        name: value
        for name, value in added.items()
        if not PLATFORMS_OWN.fullmatch(name) and name not in ("HOME", "PATH")
    }
    ours = (str(layout.HOOK_DIR), str(HERE), *os.environ.get("PYTHONPATH", "").split(":"))
    facts["places of sys.path"] = [part for part in facts["places of sys.path"] if part not in ours]
    return facts


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("python", "facts.py", "--rate", "3"), id="a script"),
        pytest.param(("python", "./facts.py"), id="a script by its folder"),
        pytest.param(("python", "-m", "facts", "--rate", "3"), id="a module"),
    ],
)
def test_a_program_sees_what_it_would_see_under_plain_python(
    tmp_path: Path, command: tuple[str, ...], warm: bool
) -> None:
    plain = seen_in_plain_python(tmp_path / "plain", command)
    assert seen_by_a_rank(tmp_path / "rank", command, warm=warm) == plain
