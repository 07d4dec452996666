"""Paths inside a worker pod, its ports, and the names of the variables that ranks read. Stdlib only.

One place for the launcher, the Ray actor and driver, and the API inside the ranks, so that no path is spelled twice.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ENV_STATE: Final = "COTENANT_STATE_DIR"
ENV_CODE_DIR: Final = "COTENANT_CODE_DIR"
"""The root of the job's code. The hook puts it at the end of `sys.path`, behind what is installed."""
ENV_PREEMPT_FILE: Final = "COTENANT_PREEMPT_FILE"
ENV_CHECKPOINT_DIR: Final = "COTENANT_CHECKPOINT_DIR"
ENV_DATA_DIR: Final = "COTENANT_DATA_DIR"
ENV_RESUME_FROM: Final = "COTENANT_RESUME_FROM"
ENV_COLLECTIVE: Final = "COTENANT_COLLECTIVE"
ENV_PRECISION: Final = "COTENANT_PRECISION"
ENV_GPU_MEM: Final = "COTENANT_GPU_MEM_BYTES"
ENV_LIMITS: Final = "COTENANT_LIMITS"
ENV_SECRET: Final = "COTENANT_SECRET"
"""Known to the ranks of one attempt only (`hmac_handshake`)."""
ENV_GENERATION: Final = "COTENANT_RESTART"

RAY_PORT: Final = 6379
NODE_MANAGER_PORT: Final = 6380
OBJECT_MANAGER_PORT: Final = 6381
RUNTIME_ENV_PORT: Final = 6382
WORKER_PORTS: Final = (20000, 20099)
TF_PORT: Final = 23000
"""TensorFlow wants every worker's port before it starts: this plus the rank's index in its pod."""

SERVER_PORT: Final = 23500
"""Of a parameter server, in its own pod. Below the ports that `conductor` hands out for rendezvous."""
LINK_PORT: Final = 23501
"""In rank 0's pod: where the pods of the parameter servers report (`heartbeats`)."""

HOOK_DIR: Final = Path(__file__).parent.parent / "hook"
"""On PYTHONPATH of every rank: its sitecustomize limits memory before the first line of user code."""


def state_dir() -> Path:
    return Path(os.environ.get(ENV_STATE, "/tmp/cotenant"))


def errors_dir(rank: int, generation: int) -> Path:
    """The error files of one start of a rank: one per process that an exception ended."""
    return state_dir() / f"errors-{rank}-{generation}"


def work_dir() -> Path:
    """Working directory of a program whose code is mounted read-only (`workspace`)."""
    return state_dir() / "work"


def socket_path() -> Path:
    """The launcher listens here; ranks, the actor and the driver of this pod connect."""
    return state_dir() / "launcher.sock"


def preempt_file() -> Path:
    return state_dir() / "preempt.json"


def counters_path(rank: int) -> Path:
    """The file of `SharedCounters` of one rank."""
    return state_dir() / f"rank-{rank}.counters"
