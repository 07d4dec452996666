"""Large frameworks are imported without the garbage collector, which is as it was afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cotenant_worker.hook
from cotenant_worker.host.layout import ENV_STATE

PROGRAM = """
import builtins, gc
builtins.frozen = gc.get_freeze_count()  # some hundred objects in Python 3.12
{before}
try:
    import tensorflow
except ImportError:
    pass
print(builtins.seen, gc.isenabled(), gc.get_freeze_count() > builtins.frozen)
"""
FRAMEWORK = "import builtins, gc; builtins.seen = gc.isenabled(); import json"


@pytest.mark.parametrize(
    ("before", "framework", "expected"),
    [
        pytest.param("", FRAMEWORK, "False True False", id="it is off meanwhile and on afterwards"),
        pytest.param("", f"{FRAMEWORK}; raise ImportError", "False True False", id="on again after a failure"),
        pytest.param("gc.disable()", FRAMEWORK, "False False False", id="the program's own choice stays"),
        pytest.param("gc.freeze()", FRAMEWORK, "False True True", id="what the program froze stays frozen"),
    ],
)
def test_the_collector_during_a_large_import(tmp_path: Path, before: str, framework: str, expected: str) -> None:
    (tmp_path / "tensorflow.py").write_text(framework)
    hook = Path(cotenant_worker.hook.__file__).parent
    env = {**os.environ, ENV_STATE: str(tmp_path), "PYTHONPATH": f"{hook}:{tmp_path}"}
    command = [sys.executable, "-c", PROGRAM.format(before=before)]
    said = subprocess.run(command, env=env, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert said.stdout.strip() == expected, said.stderr


def test_objects_that_python_has_frozen_itself_change_nothing(tmp_path: Path) -> None:
    """Python 3.12 begins with some. What is thawn behind a large import is in the oldest generation at once."""
    (tmp_path / "tensorflow.py").write_text(FRAMEWORK)
    hook = Path(cotenant_worker.hook.__file__).parent / "sitecustomize.py"
    program = "import gc, runpy, sys; gc.freeze(); runpy.run_path(sys.argv[1]); import tensorflow"
    command = [sys.executable, "-c", f"{program}; print(gc.get_freeze_count())", str(hook)]
    env = {**os.environ, ENV_STATE: str(tmp_path), "PYTHONPATH": str(tmp_path)}
    said = subprocess.run(command, env=env, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert said.stdout.strip() == "0", said.stderr
