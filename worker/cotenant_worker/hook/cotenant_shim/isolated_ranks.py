"""Finds ranks that each train a model of their own because nothing synchronizes them, and warns."""

from __future__ import annotations

import os
import sys

from .heartbeat import heartbeat
from .imports import log_line
from .launcher_client import launcher
from .main_process import rank, world_size

SYNCHRONIZED_BY_STEP = 20
"""Steps after which any synchronization has shown. DDP synchronizes before its first step."""

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Addresses at which only processes of one pod can meet."""

confined_children = []  # type: ignore[var-annotated]
"""True in a child of a rank whose process group cannot contain the other ranks."""


def is_isolated():
    """True if this rank trains, there are other ranks, and no known connection to them exists."""
    if world_size() < 2 or "COTENANT_PS_ADDRS" in os.environ:
        return False
    if {"horovod", "mpi4py", "torch.distributed.pipelining"} & set(sys.modules):
        return False  # another way to the others, or one on which NCCL counts nothing: from rank to rank
    if heartbeat.collectives:
        return process_group_unused()  # what is counted has met: torch's process group, that of `all_reduce`
    if True in confined_children:
        return True
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    rpc = sys.modules.get("torch.distributed.rpc")
    remote = getattr(rpc, "_is_current_rpc_agent_set", None)
    return not (c10d and c10d.is_initialized()) and not (remote and remote())


sequence_at_start = []  # type: ignore[var-annotated]
"""Collectives that torch's process group had entered when the program got it."""


def process_group_unused():
    """True if torch has a process group, and no group has been used yet."""
    if list(heartbeat.collectives) != ["torch"] or not sequence_at_start or "torch" not in heartbeat.activity:
        return False
    try:
        return heartbeat.activity["torch"]() == sequence_at_start[0]
    except Exception:  # a backend that does not count
        return False


def warn_isolated(why=""):
    """Send the same text from every rank, so that it becomes one warning. `why` is set if another framework than torch
    trains.
    """
    count = world_size()
    if True in confined_children:
        why = (
            "the processes that each rank started meet only one another. Ask for workers: 1 with all the GPUs,"
            " or let them meet at MASTER_ADDR and MASTER_PORT as the job gives them"
        )
    elif sequence_at_start and not why:
        why = (
            f"after {SYNCHRONIZED_BY_STEP} steps nothing has passed through the process group. Wrap the model in"
            " DistributedDataParallel, or ask for workers: 1 (Accelerate and Trainer without a GPU: use cpu=True)"
        )
    why = why or (
        f"after {SYNCHRONIZED_BY_STEP} steps there is no process group."
        " Call init_process_group and wrap the model in DistributedDataParallel, or ask for workers: 1"
    )
    text = f"the {count} ranks train {count} models, each its own: {why}"
    launcher.warn("isolated-ranks", text)
    if rank() == 0:
        log_line(text)


def stays_in_the_pod(given):
    """True if a child meets at an address that ranks in other pods do not reach."""
    env, method = os.environ, given.get("init_method")
    if given.get("store") is not None or int(env.get("COTENANT_NODES", "1")) < 2:
        return False
    if method in (None, "env://"):
        return env.get("MASTER_ADDR") in LOOPBACK
    return str(method).startswith(tuple(f"tcp://{host}:" for host in LOOPBACK))
