"""The reset of one GPU by `nvidia-smi`: NVML has no call for it.

It takes root with CAP_SYS_ADMIN (`agent.gpuReset` of the chart), and a GPU that no program has open: also this one's
own use of NVML has to be closed. GPUs that are joined by NVLink the driver may want to reset together; it says so.
"""

from __future__ import annotations

import subprocess
from typing import Final

PROGRAM: Final = "nvidia-smi"
TIMEOUT_S: Final = 90.0


def reset_device(uuid: str) -> str:
    """Empty once the driver has reset it, else what it said."""
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
