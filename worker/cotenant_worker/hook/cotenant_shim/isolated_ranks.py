"""Ranks that train models of their own, because nothing keeps them together: found and said."""

from __future__ import annotations

import os
import sys

from .heartbeat import pulse
from .imports import complain
from .main_process import ranks

TOGETHER_BY = 20
"""Steps. Whatever keeps models together has met by then: DDP does before its first."""

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Where processes of one pod meet, and nobody else."""

siblings = []  # type: ignore[var-annotated]
"""Holds True in a rank's child whose process group cannot hold the other ranks."""


def is_alone():
    """This rank trains, there are others, and it has no way to them that we know of."""
    if ranks() < 2 or "COTENANT_PS_ADDRS" in os.environ:
        return False
    if {"horovod", "mpi4py", "torch.distributed.pipelining"} & set(sys.modules):
        return False  # another way to the others, or one on which NCCL counts nothing: from rank to rank
    if pulse.counters:
        return met_for_nothing()  # those who count, or counted, have met: torch's process group, our ring
    if True in siblings:
        return True
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    rpc = sys.modules.get("torch.distributed.rpc")
    remote = getattr(rpc, "_is_current_rpc_agent_set", None)
    return not (c10d and c10d.is_initialized()) and not (remote and remote())


handed_over = []  # type: ignore[var-annotated]
"""How many collectives torch's process group had seen when it was handed to the program."""


def met_for_nothing():
    """The ranks have a process group of torch's, and by now nothing has passed through it or through any other."""
    if list(pulse.counters) != ["torch"] or not handed_over or "torch" not in pulse.stirs:
        return False
    try:
        return pulse.stirs["torch"]() == handed_over[0]
    except Exception:  # a backend that does not count
        return False


def warn_alone(why=""):
    """The same words from every rank, so that they are one warning. `why` when it is not torch that trains."""
    many = ranks()
    if True in siblings:
        why = (
            "the processes that each rank started meet only one another. Ask for workers: 1 with all the GPUs,"
            " or let them meet at MASTER_ADDR and MASTER_PORT as the job gives them"
        )
    elif handed_over and not why:
        why = (
            f"after {TOGETHER_BY} steps nothing has passed through the process group. Wrap the model in"
            " DistributedDataParallel, or ask for workers: 1 (Accelerate and Trainer without a GPU: use cpu=True)"
        )
    why = why or (
        f"after {TOGETHER_BY} steps there is no process group."
        " Call init_process_group and wrap the model in DistributedDataParallel, or ask for workers: 1"
    )
    text = f"the {many} ranks train {many} models, each its own: {why}"
    pulse.send({"op": "warning", "key": "alone", "text": text})
    if pulse.rank == 0:
        complain(text)
