"""A torchrun, or a launcher of DeepSpeed's, that a rank's own script starts (`bash run.sh`): the ranks that it would
start are there already.

A command that begins with a launcher is unwrapped before anything starts; one inside a script shows only when it runs.
A rank with several GPUs may well start a process on each of them; what cannot be meant is more processes than GPUs.
"""

from __future__ import annotations

import functools
import os
import sys

from .imports import log_line
from .launcher_client import launcher

JOB_RANKS = "ranks"
ISOLATED = "isolated"
_MEET = {
    "torchrun": "give it --nnodes=$WORLD_SIZE --node_rank=$RANK --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT",
    "deepspeed": "ask for a worker on each GPU and let the command begin with deepspeed",
}
"""Launcher → what to do about several of it that do not meet."""


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
            _become_rank("torchrun", config.nproc_per_node, config.max_nodes, [program, *args])
        return original(self, *args)

    api.elastic_launch.__call__ = launch


def after_deepspeed(runner):
    original = runner.main

    @functools.wraps(original)
    def main(args=None):
        if "COTENANT_RANK" in os.environ:
            asked = runner.parse_args(args)
            processes = asked.num_gpus if asked.num_gpus > 0 else max(1, len(_visible_gpus()))
            _become_rank("deepspeed", processes, max(1, asked.num_nodes), _behind_deepspeed(asked))
            if os.environ.get("COTENANT_POD_RANKS") == "1" and not all(each.isdigit() for each in _visible_gpus()):
                # It reads numbers there. All GPUs of the pod are this rank's, so they are the first ones.
                os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index, _ in enumerate(_visible_gpus()))
        return original(args)

    runner.main = main


def _behind_deepspeed(asked):
    """The command line of one of its processes."""
    python = [] if asked.no_python else [sys.executable, "-u", *(["-m"] if asked.module else [])]
    place = [] if asked.no_local_rank else ["--local_rank=${local_rank}"]
    return [*python, asked.user_script, *place, *asked.user_args]


def _visible_gpus():
    return [part for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part]


def _become_rank(name, processes, nodes, command):
    """Replace this process by the program; returns where the launcher should go on."""
    env = os.environ
    world = int(env.get("WORLD_SIZE", "1"))
    found = classify(processes, nodes, len(_visible_gpus()), world)
    if found == JOB_RANKS:
        command = [str(part).replace("${local_rank}", env.get("LOCAL_RANK", "0")) for part in command]
        shown = " ".join(part for part in command[1:] if part != "-u")[:200]
        log_line(f"{name} has no ranks to start here: rank {env['RANK']} of {world} runs {shown}")
        sys.stdout.flush()
        os.execvp(command[0], command)
    if found == ISOLATED:
        text = f"each of the {world} ranks starts a {name} of {processes} processes that meets no other: {_MEET[name]}"
        log_line(text)
        launcher.warn("isolated-ranks", text)
