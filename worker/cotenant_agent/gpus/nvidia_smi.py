"""What `nvidia-smi` changes of a GPU, as root with CAP_SYS_ADMIN: a reset, for which NVML has no call, and its mode."""

from __future__ import annotations

import subprocess
from typing import Final

PROGRAM: Final = "nvidia-smi"
EXCLUSIVE: Final = "EXCLUSIVE_PROCESS"
DEFAULT: Final = "DEFAULT"


def reset_device(uuid: str) -> str:
    """Empty if the driver has reset the GPU, otherwise its message.

    No program may have the GPU open (`agent.gpuReset` of the chart): the agent closes its own use of NVML too. The
    driver may insist on resetting GPUs that NVLink joins together; its message says so.
    """
    return _run("--gpu-reset", f"--id={uuid}", timeout_s=90.0, container="the agent's container")


def set_mode(uuid: str, mode: str) -> str:
    """Set who may open a GPU: every process, or one, which is then the MPS server with its clients behind it.

    Empty if the mode is set, otherwise the program's message. It lasts until the driver is loaded again. In exclusive
    mode a program that avoids MPS gets no context. Otherwise it would have the whole GPU unnoticed.
    """
    return _run(f"--id={uuid}", f"--compute-mode={mode}", timeout_s=60.0, container="this container")


def _run(*arguments: str, timeout_s: float, container: str) -> str:
    command = [PROGRAM, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s, errors="replace")
    except FileNotFoundError:
        return f"{PROGRAM} is not in {container}"
    except subprocess.TimeoutExpired:
        return f"{PROGRAM} did not answer within {timeout_s:.0f} s"
    if done.returncode == 0:
        return ""
    return " ".join((done.stderr + " " + done.stdout).split()) or f"{PROGRAM} ended with {done.returncode}"
