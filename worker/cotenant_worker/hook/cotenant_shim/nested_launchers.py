"""Handles torchrun, or a launcher of DeepSpeed or Composer, that a rank's own script starts (`bash run.sh`). The ranks
that it would start exist already.

A command that begins with a launcher is unwrapped before anything starts. A launcher inside a script is seen only when
it runs. A rank with several GPUs may start a process on each of them; more processes than GPUs cannot be meant. If the
launcher does start processes, they get the pod's grace period to save.

If such a script installs packages, every rank of the pod installs them into the same folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import sys

from .imports import log_line
from .launcher_client import launcher
from .main_process import rank, world_size

JOB_RANKS = "ranks"
ISOLATED = "isolated"
_MEET = {
    "torchrun": "give it --nnodes=$WORLD_SIZE --node_rank=$RANK --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT",
    "deepspeed": "ask for a worker on each GPU and let the command begin with deepspeed",
    "composer": "ask for a worker on each GPU and let the command begin with composer",
}
"""Launcher → what to do about several of it that do not meet."""
_PLACE = ("CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_place = {name: os.environ[name] for name in _PLACE if name in os.environ}
"""A rank's place, before a launcher puts its own there, as accelerate does by its configuration."""


_AGENTS_DEFAULT_S = 30


def classify(processes, nodes, gpus, world):
    """Classify a launch of this many processes on this many machines, in a job of `world` ranks with `gpus` GPUs each.

    JOB_RANKS: it means the job's ranks. ISOLATED: each rank would train a model of its own, which is surely not meant.
    Otherwise None.
    """
    if world < 2:
        return ""
    if processes > max(1, gpus) or processes == 1:
        return JOB_RANKS
    return ISOLATED if nodes == 1 else ""


def after_launcher(api):
    original = api.elastic_launch.__call__

    def launch(self, *args):
        config, program = self._config, self._entrypoint
        if isinstance(program, str) and "COTENANT_RANK" in os.environ:
            command = [program, *args]
            _become_rank("torchrun", config.nproc_per_node, config.max_nodes, command, restarts=config.max_restarts)
        return original(self, *args)

    api.elastic_launch.__call__ = launch


def after_worker_processes(api):
    """Let torch's agent wait for its workers for as long as the pod has to leave. By default it kills them after 30 s,
    whatever the grace period is (pytorch/pytorch#119856). A limit that the program sets stays.
    """
    original = api.PContext.close

    @functools.wraps(original)
    def close(self, death_sig=None, timeout=_AGENTS_DEFAULT_S):
        own = timeout != _AGENTS_DEFAULT_S
        return original(self, death_sig, timeout if own else max(timeout, _seconds_to_leave()))

    api.PContext.close = close


def _seconds_to_leave():
    """The seconds that this pod was given to leave; 0 if nobody asked it to."""
    path = os.environ.get("COTENANT_PREEMPT_FILE", "/nowhere")
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open(path) as file:
        return int(json.load(file)["seconds"])
    return 0


def after_accelerate(launch):
    """Replace accelerate's launcher for one process, which would give each rank a rendezvous of its own."""
    original = launch.simple_launcher

    def simple_launcher(args):
        prepare = getattr(launch, "prepare_simple_launcher_cmd_env", None)  # a version before 0.14 has none
        if prepare and "COTENANT_RANK" in os.environ and not getattr(args, "mpirun_hostfile", None):
            _become_rank("accelerate", 1, 1, *prepare(args))
        return original(args)

    launch.simple_launcher = simple_launcher


def after_deepspeed(runner):
    original = runner.main

    @functools.wraps(original)
    def main(args=None):
        if "COTENANT_RANK" in os.environ:
            asked = runner.parse_args(args)
            processes = asked.num_gpus if asked.num_gpus > 0 else max(1, len(_visible_gpus()))
            _become_rank("deepspeed", processes, max(1, asked.num_nodes), _behind_deepspeed(asked))
            if os.environ.get("COTENANT_POD_RANKS") == "1" and not all(each.isdigit() for each in _visible_gpus()):
                # The launcher expects numbers there. All GPUs of the pod belong to this rank, so the numbers count from
                # 0.
                os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index, _ in enumerate(_visible_gpus()))
        return original(args)

    runner.main = main


def after_composer(composer):
    original = composer.main

    @functools.wraps(original)
    def main():
        if "COTENANT_RANK" in os.environ:
            asked = composer._get_parser().parse_args()
            processes = asked.nproc or max(1, len(_visible_gpus()))
            machines = max(1, (asked.world_size or processes) // processes)
            python = [] if asked.command_mode else [sys.executable, *(["-m"] if asked.module_mode else [])]
            program = [*python, asked.training_script, *asked.training_script_args]
            _become_rank("composer", processes, machines, program)
        return original()

    composer.main = main


def _behind_deepspeed(asked):
    """The command line of one of its processes."""
    python = [] if asked.no_python else [sys.executable, "-u", *(["-m"] if asked.module else [])]
    place = [] if asked.no_local_rank else ["--local_rank=${local_rank}"]
    return [*python, asked.user_script, *place, *asked.user_args]


def _visible_gpus():
    return [part for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part]


def _become_rank(name, processes, nodes, command, variables=os.environ, *, restarts=0):
    """Replace this process by the program. Returns only if the launcher should continue. `variables` are what the
    launcher sets for the program, `restarts` how often it would start failed processes again.
    """
    world = world_size()
    found = classify(processes, nodes, len(_visible_gpus()), world)
    if found == JOB_RANKS:
        place = _place_among(processes * nodes if nodes > 1 else 1)
        command = [str(part).replace("${local_rank}", place["LOCAL_RANK"]) for part in command]
        shown = " ".join(part for part in command[1:] if part != "-u")[:200]
        log_line(f"{name} has no ranks to start here: rank {place['RANK']} of {place['WORLD_SIZE']} runs {shown}")
        if restarts > int(os.environ.get("TORCHELASTIC_MAX_RESTARTS") or 0):
            text = f"{name}: max_restarts={restarts} starts nothing again here: say retries: {restarts} in the job"
            log_line(text)
            launcher.warn("lost-restarts", text)
        sys.stdout.flush()
        os.execvpe(command[0], command, {**variables, **place})
    if found == ISOLATED:
        text = f"each of the {world} ranks starts a {name} of {processes} processes that meets no other: {_MEET[name]}"
        log_line(text)
        launcher.warn("isolated-ranks", text)


def _place_among(count):
    """Variables of this rank's place in the job; or among `count` processes, if the script names that number.

    Scripts also set such variables for their launcher, with another port in each rank (`MASTER_PORT=$((RANDOM +
    10000))`), or remove them, because a launcher sets its own.
    """
    env = os.environ
    place = {"LOCAL_RANK": "0", **_place, "RANK": str(rank()), "WORLD_SIZE": str(world_size())}
    if 1 < count != world_size() and env.get("WORLD_SIZE") == str(count):
        return {**place, "RANK": env.get("RANK", "0"), "WORLD_SIZE": str(count)}
    host, _, port = env.get("COTENANT_MASTER", "").rpartition(":")
    return {**place, "MASTER_ADDR": host.strip("[]"), "MASTER_PORT": port} if port else place


_INSTALLS = "COTENANT_PIP"
"""Set in a pip that has its turn, and in those that it starts to build a package."""


def after_pip(module):
    """Let the ranks of a pod run pip one after the other: it has no lock, and installs half of a package beside
    another that does the same (pypa/pip#2361).
    """
    original = module.main

    @functools.wraps(original)
    def main(*args, **kwargs):
        if os.environ.get("COTENANT_POD_RANKS", "1") == "1" or _INSTALLS in os.environ:
            return original(*args, **kwargs)
        with _turn():
            return original(*args, **kwargs)

    module.main = main


@contextlib.contextmanager
def _turn():
    path = os.path.join(os.environ.get("COTENANT_STATE_DIR", "/nowhere"), "pip.lock")
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            fcntl.flock(held.enter_context(open(path, "w")), fcntl.LOCK_EX)
        os.environ[_INSTALLS] = "1"
        held.callback(os.environ.pop, _INSTALLS, None)
        yield
