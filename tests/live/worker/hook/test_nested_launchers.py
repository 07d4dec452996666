"""Other launchers: their command lines, and a torchrun that a rank starts by itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_local.host.patience import stretched
from cotenant_worker.host import layout
from cotenant_worker.supervision.conductor import free_ports

MEETS = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
found = torch.ones(1)
dist.all_reduce(found)
os.write(1, f"sum {int(found)}\\n".encode())  # at once: both processes write there
dist.destroy_process_group()
"""


@pytest.mark.ray
def test_the_processes_of_a_rank_that_meet_at_the_jobs_address_are_no_world_of_ranks(tmp_path: Path) -> None:
    """One worker with two GPUs. Our check before step 0 is for ranks: in one of the two it would wait for the other."""
    program = tmp_path / "train.py"
    program.write_text(MEETS)
    [port] = free_ports("127.0.0.1", 1)
    env = {
        **os.environ,
        "PYTHONPATH": str(layout.HOOK_DIR),
        "COTENANT_STATE_DIR": str(tmp_path),
        "COTENANT_RESTART": "0",
        "COTENANT_RANK": "0",
        "COTENANT_RANKS": "1",
        "COTENANT_MASTER": f"127.0.0.1:{port}",
        "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2",
        **{"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
    }
    options = ["--nproc_per_node=2", "--master_addr=127.0.0.1", f"--master_port={port}"]
    command = [sys.executable, "-m", "torch.distributed.run", *options, str(program)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=stretched(240), check=False)
    assert done.stdout.splitlines() == ["sum 2", "sum 2"], done.stderr
