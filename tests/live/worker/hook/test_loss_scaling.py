"""Mixed precision by one field, in a program that knows nothing of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant_local.host.patience import stretched
from cotenant_worker.host import layout
from cotenant_worker.supervision.conductor import free_ports

PROGRAMS = Path(__file__).parents[4] / "tests" / "worker" / "programs"

pytestmark = pytest.mark.ray  # imports torch: seconds of CPU


def output_of(program: str, precision: str, state: Path) -> str:
    [port] = free_ports("127.0.0.1", 1)
    env = {**os.environ, "COTENANT_PRECISION": precision, "COTENANT_STATE_DIR": str(state)}
    env["PYTHONPATH"] = str(layout.HOOK_DIR)
    command = [sys.executable, str(PROGRAMS / program), str(port)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=stretched(280)).stdout


def trained(precision: str, state: Path) -> tuple[str, str, float]:
    inside, outside, loss = output_of("precise.py", precision, state).split()
    return inside, outside, float(loss)


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", "torch.bfloat16"), ("fp16", "torch.float16")])
def test_half_precision_computes_in_half_gives_float32_back_and_reaches_the_same_loss(
    tmp_path: Path, precision: str, dtype: str
) -> None:
    full, mixed = trained("fp32", tmp_path), trained(precision, tmp_path)
    assert full[:2] == ("torch.float32", "torch.float32")
    assert mixed[:2] == (dtype, "torch.float32")
    assert mixed[2] == pytest.approx(full[2], rel=0.05)


def test_fp16_keeps_gradients_that_it_cannot_hold_and_leaves_out_steps_that_overflow(tmp_path: Path) -> None:
    found = json.loads(output_of("small_gradients.py", "fp16", tmp_path).partition("FOUND ")[2])
    # 1e-9 · (image + 1) for the weights, 1e-9 for the parameter beside the model.
    assert found["small"] == pytest.approx([2e-9, 3e-9, 4e-9, 5e-9, 1e-9], rel=0.01)
    assert found["untouched"]
    # From 65536 down to 16, the first factor whose product with the largest gradient is below 65504.
    assert found["steps"] == 13
    assert found["large"] == pytest.approx([1e3, 2e3, 3e3, 4e3, 0.0], rel=0.01)
