"""Resets one GPU with `nvidia-smi`, because NVML has no call for it.

It needs root with CAP_SYS_ADMIN (`agent.gpuReset` of the chart), and no program may have the GPU open: the agent closes
its own use of NVML too. The driver may insist on resetting GPUs that NVLink joins together; its message says so.
"""

from __future__ import annotations

import subprocess
from typing import Final

PROGRAM: Final = "nvidia-smi"
TIMEOUT_S: Final = 90.0


def reset_device(uuid: str) -> str:
    """Empty if the driver has reset the GPU, otherwise its message."""
    command = [PROGRAM, "--gpu-reset", f"--id={uuid}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, errors="replace")
    except FileNotFoundError:
        return f"{PROGRAM} is not in the agent's container"
    except subprocess.TimeoutExpired:
        return f"{PROGRAM} did not answer within {TIMEOUT_S:.0f} s"
    if done.returncode == 0:
        return ""
    said = " ".join((done.stderr + " " + done.stdout).split())
    return said or f"{PROGRAM} ended with {done.returncode}"
