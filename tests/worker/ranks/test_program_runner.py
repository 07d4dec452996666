"""A rank's program, run as if Python had been started with it."""

import signal
import subprocess
import sys
from pathlib import Path

from cotenant_worker.supervision.traceback_excerpt import error_line

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
