"""Paths inside a worker pod, its ports, and the names of the variables that ranks read. Stdlib only.

The launcher, the Ray actor and driver, and the API inside the ranks use it, so that each path is written once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ENV_STATE: Final = "COTENANT_STATE_DIR"
ENV_CODE_DIR: Final = "COTENANT_CODE_DIR"
"""The root of the job's code. The hook puts it at the end of `sys.path`, after installed packages."""
ENV_PREEMPT_FILE: Final = "COTENANT_PREEMPT_FILE"
ENV_CHECKPOINT_DIR: Final = "COTENANT_CHECKPOINT_DIR"
ENV_DATA_DIR: Final = "COTENANT_DATA_DIR"
ENV_RESUME_FROM: Final = "COTENANT_RESUME_FROM"
ENV_COLLECTIVE: Final = "COTENANT_COLLECTIVE"
ENV_PRECISION: Final = "COTENANT_PRECISION"
ENV_GPU_MEM: Final = "COTENANT_GPU_MEM_BYTES"
ENV_LIMITS: Final = "COTENANT_LIMITS"
ENV_SECRET: Final = "COTENANT_SECRET"
"""Known only to the ranks of one attempt (`hmac_handshake`)."""
ENV_GENERATION: Final = "COTENANT_RESTART"

RAY_PORT: Final = 22379
"""Not Ray's own 6379: a program may start a Redis there, or a Ray of its own (`ray start --head`)."""
NODE_MANAGER_PORT: Final = 22380
OBJECT_MANAGER_PORT: Final = 22381
RUNTIME_ENV_PORT: Final = 22382
WORKER_PORTS: Final = (22400, 22499)
"""Beside the others: run scripts meet at 20001 (`--master_port=20001`)."""
TF_PORT: Final = 23000
"""TensorFlow needs every worker's port before it starts: this port plus the rank's index in its pod."""

SERVER_PORT: Final = 23500
"""Port of a parameter server in its own pod. It is below the ports that `conductor` gives out for rendezvous."""
LINK_PORT: Final = 23501
"""Port in rank 0's pod to which the pods of parameter servers report (`heartbeats`)."""

HOOK_DIR: Final = Path(__file__).parent.parent / "hook"
"""On PYTHONPATH of every rank. Its sitecustomize limits memory before the first line of user code."""


HIDDEN_DIR: Final = Path("/tmp/.cotenant")
"""Scripts that begin with `rm -rf /tmp/*` do not mean it."""


def state_dir() -> Path:
    return Path(os.environ.get(ENV_STATE, HIDDEN_DIR))


def errors_dir(rank: int, generation: int) -> Path:
    """Folder for the error files of one start of a rank: one file for each process that an exception ended."""
    return state_dir() / f"errors-{rank}-{generation}"


def work_dir() -> Path:
    """Working directory of a program whose code is mounted read-only (`workspace`)."""
    return state_dir() / "work"


def socket_path() -> Path:
    """Socket of the launcher. Ranks, the actor and the driver of this pod connect to it."""
    return state_dir() / "launcher.sock"


def preempt_file() -> Path:
    return state_dir() / "preempt.json"


def counters_path(rank: int) -> Path:
    """The file of `SharedCounters` of one rank."""
    return state_dir() / f"rank-{rank}.counters"
