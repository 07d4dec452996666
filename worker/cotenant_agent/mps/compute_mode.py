"""Who may open a GPU: everybody, or one process, which is then the server of MPS with its clients behind it.

`nvidia-smi` sets it for root with CAP_SYS_ADMIN, and it lasts until the driver is loaded anew. In exclusive mode a
program that goes around MPS gets no context: without it, it would have the whole GPU, and nobody would say so.
"""

from __future__ import annotations

import subprocess
from typing import Final

PROGRAM: Final = "nvidia-smi"
TIMEOUT_S: Final = 60.0
EXCLUSIVE: Final = "EXCLUSIVE_PROCESS"
DEFAULT: Final = "DEFAULT"


def set_mode(uuid: str, mode: str) -> str:
    """Empty once it is set, else what the program said."""
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
