"""Mixed precision by one field, in a program that knows nothing of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_worker import layout
from cotenant_worker.conductor import free_ports

PROGRAM = Path(__file__).parent / "programs" / "precise.py"

pytestmark = pytest.mark.ray  # imports torch: seconds of CPU


def trained(precision: str, state: Path) -> tuple[str, str, float]:
    [port] = free_ports("127.0.0.1", 1)
    env = {**os.environ, "COTENANT_PRECISION": precision, "COTENANT_STATE_DIR": str(state)}
    env["PYTHONPATH"] = str(layout.HOOK_DIR)
    command = [sys.executable, str(PROGRAM), str(port)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=240)
    inside, outside, loss = done.stdout.split()
    return inside, outside, float(loss)


def test_bf16_computes_in_bf16_gives_float32_back_and_reaches_the_same_loss(tmp_path: Path) -> None:
    full, mixed = trained("fp32", tmp_path), trained("bf16", tmp_path)
    assert full[:2] == ("torch.float32", "torch.float32")
    assert mixed[:2] == ("torch.bfloat16", "torch.float32")
    assert mixed[2] == pytest.approx(full[2], rel=0.05)
