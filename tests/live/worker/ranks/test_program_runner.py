"""A rank's program, run as if Python had been started with it."""

import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_local.host.patience import stretched
from tests.worker.processes import PROGRAMS
from tests.worker.ranks.test_program_runner import RUN


@pytest.mark.ray  # imports torch: seconds of CPU
@pytest.mark.parametrize(("code", "printed"), [(0, "left the group\n"), (3, "")])
def test_a_program_that_ends_well_leaves_its_process_group_and_one_that_failed_waits_for_nobody(
    tmp_path: Path, code: int, printed: str
) -> None:
    command = [sys.executable, "-c", RUN, str(PROGRAMS / "leaves.py"), str(tmp_path / "store"), str(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=stretched(120))
    assert (done.returncode, done.stdout) == (code, printed), done.stderr
