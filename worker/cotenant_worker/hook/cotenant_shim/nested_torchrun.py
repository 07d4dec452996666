"""A torchrun that a rank's own script starts (`bash run.sh`): its processes are the ranks that are there already.

A command that begins with torchrun is unwrapped before anything starts; one inside a script shows only when it runs.
A rank with several GPUs may well start a process on each of them; what cannot be meant is more processes than GPUs.
"""

from __future__ import annotations

import os
import sys

from .heartbeat import pulse
from .imports import complain

RANKS = "ranks"
ALONE = "alone"


def meaning(processes, nodes, gpus, world):
    """What a launch of so many processes on so many machines means in a job of `world` ranks with `gpus` GPUs each.

    RANKS: the job's ranks. ALONE: a training of this rank's own, which meets no other; surely not meant. Else nothing.
    """
    if world < 2:
        return ""
    if processes > max(1, gpus) or (processes == 1 and nodes == 1):
        return RANKS
    return ALONE if nodes == 1 else ""


def after_launcher(api):
    original = api.elastic_launch.__call__

    def launch(self, *args):
        config, program = self._config, self._entrypoint
        if isinstance(program, str) and "COTENANT_RANK" in os.environ:
            _begin(config.nproc_per_node, config.max_nodes, [program, *args])
        return original(self, *args)

    api.elastic_launch.__call__ = launch


def _begin(processes, nodes, command):
    """Returns where torchrun should go on."""
    env = os.environ
    gpus = len([part for part in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if part])
    world = int(env.get("WORLD_SIZE", "1"))
    found = meaning(processes, nodes, gpus, world)
    if found == RANKS:
        command = [str(word).replace("${local_rank}", env.get("LOCAL_RANK", "0")) for word in command]
        shown = " ".join(word for word in command[1:] if word != "-u")[:200]
        complain(f"torchrun has no ranks to start here: rank {env['RANK']} of {world} runs {shown}")
        sys.stdout.flush()
        os.execvp(command[0], command)
    if found == ALONE:
        text = (
            f"each of the {world} ranks starts a torchrun of {processes} processes that meets no other: give it"
            " --nnodes=$WORLD_SIZE --node_rank=$RANK --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT"
        )
        complain(text)
        pulse.send({"op": "warning", "key": "alone", "text": text})
