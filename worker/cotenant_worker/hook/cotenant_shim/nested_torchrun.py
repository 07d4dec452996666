"""A torchrun that a rank's own script starts (`bash run.sh`): the ranks that it would start are there already.

A command that begins with torchrun is unwrapped before anything starts; one inside a script shows only when it runs.
A rank with several GPUs may well start a process on each of them; what cannot be meant is more processes than GPUs.
"""

from __future__ import annotations

import os
import sys

from .imports import log_line
from .launcher_client import launcher

JOB_RANKS = "ranks"
ISOLATED = "isolated"


def classify(processes, nodes, gpus, world):
    """Tell what a launch of so many processes on so many machines means in a job of `world` ranks of `gpus` GPUs.

    JOB_RANKS: the job's ranks. ISOLATED: a training of this rank's own, which meets no other; surely not meant. Else
    nothing.
    """
    if world < 2:
        return ""
    if processes > max(1, gpus) or (processes == 1 and nodes == 1):
        return JOB_RANKS
    return ISOLATED if nodes == 1 else ""


def after_launcher(api):
    original = api.elastic_launch.__call__

    def launch(self, *args):
        config, program = self._config, self._entrypoint
        if isinstance(program, str) and "COTENANT_RANK" in os.environ:
            _become_rank(config.nproc_per_node, config.max_nodes, [program, *args])
        return original(self, *args)

    api.elastic_launch.__call__ = launch


def _become_rank(processes, nodes, command):
    """Replace this process by the program; returns where torchrun should go on."""
    env = os.environ
    gpus = len([part for part in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if part])
    world = int(env.get("WORLD_SIZE", "1"))
    found = classify(processes, nodes, gpus, world)
    if found == JOB_RANKS:
        command = [str(part).replace("${local_rank}", env.get("LOCAL_RANK", "0")) for part in command]
        shown = " ".join(part for part in command[1:] if part != "-u")[:200]
        log_line(f"torchrun has no ranks to start here: rank {env['RANK']} of {world} runs {shown}")
        sys.stdout.flush()
        os.execvp(command[0], command)
    if found == ISOLATED:
        text = (
            f"each of the {world} ranks starts a torchrun of {processes} processes that meets no other: give it"
            " --nnodes=$WORLD_SIZE --node_rank=$RANK --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT"
        )
        log_line(text)
        launcher.warn("isolated-ranks", text)
