"""Ranks that train models of their own, because nothing keeps them together: found and said."""

from __future__ import annotations

import os
import sys

from .beats import pulse
from .imports import complain
from .main_process import ranks

TOGETHER_BY = 20
"""Steps. Whatever keeps models together has met by then: DDP does before its first."""

siblings = []  # type: ignore[var-annotated]
"""Holds True in a rank's child whose process group cannot hold the other ranks."""


def is_alone():
    """This rank trains, there are others, and it has no way to them that we know of."""
    if ranks() < 2 or "COTENANT_PS_ADDRS" in os.environ or pulse.counters:
        return False  # those who count, or counted, have met: torch's process group, our ring
    if {"horovod", "mpi4py"} & set(sys.modules):
        return False
    if True in siblings:
        return True
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    rpc = sys.modules.get("torch.distributed.rpc")
    remote = getattr(rpc, "_is_current_rpc_agent_set", None)
    return not (c10d and c10d.is_initialized()) and not (remote and remote())


def warn_alone(why=""):
    """The same words from every rank, so that they are one warning. `why` when it is not torch that trains."""
    many = ranks()
    if True in siblings:
        why = (
            "the processes that each rank started meet only one another. Ask for workers: 1 with all the GPUs,"
            " or let them meet at MASTER_ADDR and MASTER_PORT as the job gives them"
        )
    why = why or (
        f"after {TOGETHER_BY} steps there is no process group."
        " Call init_process_group and wrap the model in DistributedDataParallel, or ask for workers: 1"
    )
    text = f"the {many} ranks train {many} models, each its own: {why}"
    pulse.send({"op": "warning", "key": "alone", "text": text})
    if pulse.rank == 0:
        complain(text)
