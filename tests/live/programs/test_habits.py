"""What programs do of which launchers know nothing: each prints the same and ends the same as beside Cotenant."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.programs.habits import HABITS, Habit
from tests.live.programs.wrapped_habits import WRAPPED_HABITS
from tests.support.pod_sandbox import contract
from tests.worker.processes import launched

PATIENCE_S = 120
PATH = f"{Path(sys.executable).parent}:/usr/bin:/bin"
ANNOUNCED = b"cotenant: "

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(300)]


def environment(habit: Habit, folder: Path) -> dict[str, str]:
    own = {name: value.format(here=folder) for name, value in habit.environment.items()}
    return {"PATH": PATH, "HOME": str(folder), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1", **own}


def command(habit: Habit, folder: Path) -> tuple[str, ...]:
    return tuple(part.format(here=folder) if "{here}" in part else part for part in habit.command)


def beside(habit: Habit, folder: Path) -> tuple[int, bytes]:
    # As a fresh process has them: a run in the background of a shell would ignore these signals.
    argv = ["env", "--default-signal=INT,QUIT", *command(habit, folder)]
    done = subprocess.run(
        argv,
        cwd=folder,
        env=environment(habit, folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return (done.returncode if done.returncode >= 0 else 128 - done.returncode), done.stdout


def inside(habit: Habit, folder: Path, *, warm: bool) -> tuple[int, bytes]:
    where = {"codePath": str(folder), "warmStart": warm}
    job = contract([1], command=command(habit, folder), platform=where)
    with launched(folder.parent, job.to_json(), **environment(habit, folder)) as pod:
        output = pod.process.stdout
        assert isinstance(output, io.TextIOWrapper)
        printed = output.buffer.read()
        code = pod.process.wait(PATIENCE_S)
    return code, b"\n".join(line for line in printed.split(b"\n") if not line.startswith(ANNOUNCED))


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("habit", [pytest.param(habit, id=habit.name) for habit in (*HABITS, *WRAPPED_HABITS)])
def test_a_program_ends_and_prints_as_it_does_beside_cotenant(tmp_path: Path, habit: Habit, warm: bool) -> None:
    tool = habit.command[0]
    if "/" not in tool and shutil.which(tool, path=PATH) is None:
        pytest.skip(f"{tool} is not installed")
    here = tmp_path / "code"
    habit.write(here)
    plain = beside(habit, here)
    shutil.rmtree(here)
    habit.write(here)
    code, printed = inside(habit, here, warm=warm)
    assert code == plain[0], printed.decode(errors="replace")
    if habit.same_output:
        assert printed.strip() == plain[1].strip()
