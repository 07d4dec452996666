"""Sets who may open a GPU: every process, or one, which is then the MPS server with its clients behind it.

`nvidia-smi` sets it for root with CAP_SYS_ADMIN, and it lasts until the driver is loaded again. In exclusive mode a
program that avoids MPS gets no context. Otherwise it would have the whole GPU unnoticed.
"""

from __future__ import annotations

import subprocess
from typing import Final

PROGRAM: Final = "nvidia-smi"
TIMEOUT_S: Final = 60.0
EXCLUSIVE: Final = "EXCLUSIVE_PROCESS"
DEFAULT: Final = "DEFAULT"


def set_mode(uuid: str, mode: str) -> str:
    """Empty if the mode is set, otherwise the program's message."""
    command = [PROGRAM, f"--id={uuid}", f"--compute-mode={mode}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, errors="replace")
    except FileNotFoundError:
        return f"{PROGRAM} is not in this container"
    except subprocess.TimeoutExpired:
        return f"{PROGRAM} did not answer within {TIMEOUT_S:.0f} s"
    if done.returncode == 0:
        return ""
    return " ".join((done.stderr + " " + done.stdout).split()) or f"{PROGRAM} ended with {done.returncode}"
