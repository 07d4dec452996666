"""The hook at the start of every Python program of a rank, in interpreters of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_worker.host import layout

SHOWN = """
import json, sys
shims = [sys.modules.get(name) for name in ("cotenant_shim", "cotenant_worker.hook.cotenant_shim")]
print(json.dumps({
    "shim": shims[0] is not None and shims[0] is shims[1],
    "worker": "cotenant_worker" in sys.modules,
    "image": getattr(sys, "of_the_image", None),
}))
"""


@pytest.mark.parametrize("image", [True, False], ids=["an image with its own sitecustomize", "an image without one"])
@pytest.mark.parametrize("rank", [True, False], ids=["in a rank", "outside a job"])
def test_a_rank_has_the_shim_and_every_program_the_sitecustomize_of_its_image(
    tmp_path: Path, rank: bool, image: bool
) -> None:
    if image:
        (tmp_path / "sitecustomize.py").write_text("import sys; sys.of_the_image = __file__")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{layout.HOOK_DIR}:{tmp_path}"}
    env |= {layout.ENV_STATE: str(tmp_path)} if rank else {}
    done = subprocess.run([sys.executable, "-c", SHOWN], env=env, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {
        "shim": rank,
        "worker": False,
        "image": str(tmp_path / "sitecustomize.py") if image else None,
    }
    assert done.stderr == ""


def test_processes_that_a_rank_starts_write_whole_lines_and_its_own_loses_nothing(tmp_path: Path) -> None:
    # A packet socket keeps writes apart.
    reading, writing = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = {"PYTHONPATH": str(layout.HOOK_DIR), "PYTHONUNBUFFERED": "1", layout.ENV_STATE: str(tmp_path)}
    env |= {"RANK": "0", "COTENANT_RESTART": "0"}
    child = "import sys; print('loss', 1); print('acc', 2, file=sys.stderr); print('no end', end='')"
    program = f"import os, subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print('own', end='')"
    with reading, writing:
        output = writing.fileno()
        subprocess.run(
            [sys.executable, "-c", f"{program}; os._exit(0)"], env=env, stdout=output, stderr=output, check=True
        )
        writing.close()
        assert list(iter(lambda: reading.recv(4096), b"")) == [b"loss 1\n", b"acc 2\n", b"no end", b"own"]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("export PYTHONPATH=./\npython train.py", id="PYTHONPATH set anew"),
        pytest.param("PYTHONPATH=. python train.py", id="for one command"),
        pytest.param("export PYTHONPATH=$PWD:$PYTHONPATH\npython train.py", id="added to"),
        pytest.param("env -i PATH=$PATH python train.py", id="an empty environment"),
        pytest.param("PYTHONPATH=$PWD/agent:$PYTHONPATH python train.py", id="behind an agent with a sitecustomize"),
        pytest.param("python -I train.py", id="an isolated interpreter"),
    ],
)
def test_the_hook_is_there_whatever_a_run_script_makes_of_its_path(tmp_path: Path, script: str) -> None:
    """The `.pth` file of the worker's environment brings it. Outside a rank the file does nothing."""
    (tmp_path / "train.py").write_text("import sys; print('cotenant_shim' in sys.modules)")
    (tmp_path / "select.py").write_text("# picks samples")
    (tmp_path / "run.sh").write_text(f"{script}\n:\n")
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "sitecustomize.py").write_text("# instruments the program")
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    rank = {layout.ENV_STATE: str(tmp_path), "COTENANT_RESTART": "0", "PYTHONPATH": str(layout.HOOK_DIR)}
    for env, found in ((rank, "True\n"), ({}, "False\n")):
        done = subprocess.run(
            ["bash", "run.sh"], cwd=tmp_path, env={"PATH": path, **env}, capture_output=True, text=True, check=True
        )
        assert (done.stdout, done.stderr) == (found, "")


def test_the_root_of_the_code_comes_behind_what_is_installed(tmp_path: Path) -> None:
    for name in ("yaml", "own"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    env = {layout.ENV_STATE: str(tmp_path), layout.ENV_CODE_DIR: str(tmp_path), "PYTHONPATH": str(layout.HOOK_DIR)}
    program = "import own, yaml; print(own.__file__, yaml.safe_load('1'))"
    done = subprocess.run([sys.executable, "-c", program], cwd="/", env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}/own/__init__.py 1\n"
