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
import gc
{before}
try:
    import tensorflow
except ImportError:
    pass
import builtins
print(builtins.seen, gc.isenabled(), gc.get_freeze_count() > 0)
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
