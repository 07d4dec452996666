"""Other launchers: their command lines, and a torchrun that a rank starts by itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_worker.hook.cotenant_shim.nested_torchrun import classify
from cotenant_worker.host import layout


@pytest.mark.parametrize(
    ("processes", "nodes", "gpus", "world", "want"),
    [
        pytest.param(2, 1, 1, 2, "ranks", id="two processes in each of two ranks with a GPU: they are these ranks"),
        pytest.param(1, 1, 1, 2, "ranks", id="one process in each"),
        pytest.param(4, 2, 1, 8, "ranks", id="four on each of two machines"),
        pytest.param(8, 2, 8, 2, "", id="a rank is a machine with eight GPUs, and they meet"),
        pytest.param(8, 1, 8, 2, "isolated", id="two machines that do not meet"),
        pytest.param(8, 1, 8, 1, "", id="one machine"),
        pytest.param(2, 1, 1, 1, "", id="one rank may do as it likes"),
    ],
)
def test_what_a_torchrun_inside_a_rank_means(processes: int, nodes: int, gpus: int, world: int, want: str) -> None:
    assert classify(processes, nodes, gpus, world) == want


@pytest.mark.parametrize("how", ["torch.distributed.run", "torch.distributed.launch"])
def test_a_torchrun_in_a_script_becomes_the_rank(tmp_path: Path, how: str) -> None:
    """With its place in the job's world, and with what shows it to be the rank's first process."""
    program = tmp_path / "train.py"
    shim = "import cotenant_shim.main_process as of; print(of.is_main_process(), os.getpid())"
    words = "print(os.environ['RANK'], os.environ['WORLD_SIZE'], os.environ['MASTER_PORT'], sys.argv[1:])"
    program.write_text(f"import os, sys\n{words}\n{shim}\n")
    env = {
        **os.environ,
        "PYTHONPATH": str(layout.HOOK_DIR),
        "COTENANT_STATE_DIR": str(tmp_path),
        "COTENANT_RESTART": "0",
        "COTENANT_RANK": "1",
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        **{"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29999"},
    }
    command = [sys.executable, "-m", how, "--nproc_per_node=2", "--master_port=5972", str(program), "--lr", "1"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, errors = process.communicate(timeout=120)
    option = ["--local-rank=1"] if how.endswith("launch") else []
    assert out.splitlines() == [f"1 2 29999 {[*option, '--lr', '1']}", f"True {process.pid}"], errors
    assert f"cotenant: torchrun has no ranks to start here: rank 1 of 2 runs {program}" in errors
