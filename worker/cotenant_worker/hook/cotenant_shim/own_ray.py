"""`ray.init` in a program that is started once per rank: each rank gets a Ray of its own, in its pod.

The job's Ray cluster carries the ranks and is closed to programs; in mode `rayTrain`, whose program is no rank, it is
open to them.
"""

from __future__ import annotations

import functools
import os
import re

from .imports import log_line
from .launcher_client import launcher
from .main_process import in_rank, rank, world_size

ONE_FOR_ALL = "For one Ray cluster over all pods set runtime.rayTrain: true, which runs the command once"


def after_ray_worker(module):
    original = module.init

    @functools.wraps(original)
    def init(address=None, *args, **kwargs):
        if not in_rank() or world_size() < 2 or os.environ.get("RAY_ADDRESS", "auto") != "auto":
            return original(address, *args, **kwargs)
        if address == "auto":
            raise ConnectionError(
                f"ray.init: rank {rank()} finds no Ray cluster, for the job's own carries its {world_size()} ranks."
                f" {ONE_FOR_ALL}; ray.init() without an address starts one in each rank"
            )
        found = original(address, *args, **kwargs)
        if not address or address == "local":
            _warn()
        return found

    module.init = init


def _warn():
    text = f"each of the {world_size()} ranks starts a Ray cluster of its own, which knows nothing of the others'."
    text = f"{text} {ONE_FOR_ALL}; for one on one machine ask for workers: 1 with all the GPUs"
    launcher.warn("ray-clusters", text)
    if rank() == 0:
        log_line(text)


_MAX_WRAPPED = 8
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def brought(error):
    """(the exception that Ray brought from another process, the frames that it had there); any other as it is."""
    frames = []
    for _ in range(_MAX_WRAPPED):
        inner = _inside(error)
        if not isinstance(inner, BaseException) or inner is error:
            break
        frames = _FRAME.findall(str(error)) or frames  # Ray's exceptions show the traceback of the other process
        error = inner
    return error, [(name, int(line), function) for name, line, function in frames]


def _inside(error):
    """What an exception of Ray's wraps: that of a task or an actor, or of the first worker of Ray Train that failed."""
    if not any(base.__module__.startswith("ray.") for base in type(error).__mro__):
        return None
    failures = getattr(error, "worker_failures", None)
    if isinstance(failures, dict) and failures:
        return failures[min(failures)]
    names = ("cause", "controller_failure", "_base_exc")
    return next((getattr(error, name) for name in names if getattr(error, name, None) is not None), None)
