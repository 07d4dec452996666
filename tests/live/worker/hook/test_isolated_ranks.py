"""Ranks that train each for itself: a program without a process group in a job of several workers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_local.host.patience import stretched
from cotenant_worker.host import layout
from cotenant_worker.supervision.conductor import free_ports

PROGRAM = Path(__file__).parents[4] / "tests" / "worker" / "programs" / "alone.py"

pytestmark = pytest.mark.ray  # imports torch: seconds of CPU


@pytest.mark.parametrize(
    ("how", "size", "rank", "warned"),
    [
        pytest.param("none", "2", "0", True, id="two ranks that have nothing to do with each other"),
        pytest.param("by hand", "2", "0", True, id="two ranks without an optimizer"),
        pytest.param("none", "2", "1", False, id="rank 0 says it in the log, for all"),
        pytest.param("none", "1", "0", False, id="one rank"),
        pytest.param("met", "2", "0", False, id="a process group"),
        pytest.param("met for nothing", "2", "0", True, id="a process group that nothing passes through"),
        pytest.param("children", "2", "0", True, id="processes of a rank's own that meet one another only"),
        pytest.param("children that meet", "2", "0", False, id="processes of a rank's own that meet the other ranks"),
        pytest.param("remote", "2", "0", False, id="torch's remote calls"),
    ],
)
def test_ranks_that_train_models_of_their_own_are_told(
    tmp_path: Path, how: str, size: str, rank: str, warned: bool
) -> None:
    [port] = free_ports("127.0.0.1", 1)
    env = {
        **os.environ,
        "PYTHONPATH": str(layout.HOOK_DIR),
        "COTENANT_STATE_DIR": str(tmp_path),
        "COTENANT_RESTART": "0",
        "COTENANT_RANK": rank,
        "COTENANT_PREFLIGHT": "0",
        "COTENANT_MASTER": f"127.0.0.1:{port}" if how == "children that meet" else "10.0.0.1:29500",
        **{"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": "0"},
    }
    command = [sys.executable, str(PROGRAM), how, f"127.0.0.1:{port}"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=stretched(280), check=False)
    assert done.stdout == "trained\n", done.stderr
    assert ("the 2 ranks train 2 models, each its own" in done.stderr) is warned, done.stderr
