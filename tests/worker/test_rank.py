"""A rank's program, run as if Python had been started with it."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
RUN = """
import sys
from cotenant_worker.programs import Program
from cotenant_worker.rank import run
sys.exit(run(Program("script", tuple(sys.argv[1:]))))
"""


@pytest.mark.ray  # imports torch: seconds of CPU
@pytest.mark.parametrize(("code", "said"), [(0, "left the group\n"), (3, "")])
def test_a_program_that_ends_well_leaves_its_process_group_and_one_that_failed_waits_for_nobody(
    tmp_path: Path, code: int, said: str
) -> None:
    command = [sys.executable, "-c", RUN, str(PROGRAMS / "leaves.py"), str(tmp_path / "store"), str(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (code, said), done.stderr
