"""`ray.init` in a program that is started once per rank: each rank gets a Ray of its own, in its pod.

The job's Ray cluster runs the ranks and is closed to programs. In mode `rayTrain` the program is no rank, and the
cluster is open to it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re

from .imports import log_line
from .launcher_client import launcher
from .main_process import in_rank, rank, world_size

ONE_FOR_ALL = "For one Ray cluster over all pods set runtime.rayTrain: true, which runs the command once"
_started = []  # type: ignore[var-annotated]
"""Not empty once this process is in a Ray of this pod, which gets no more machines."""


def after_ray_worker(module):
    original = module.init

    @functools.wraps(original)
    def init(address=None, *args, **kwargs):
        inside = in_rank() and os.environ.get("RAY_ADDRESS", "auto") == "auto"
        several = inside and world_size() > 1
        if several and address == "auto":
            address = _clusters_address(module)
        found = original(address, *args, **kwargs)
        own = inside and (not address or address in ("auto", "local")) and not (several and _has_joined(module))
        _started[:] = [True] if own else []
        if own and several:
            _warn()
        return found

    module.init = init


def _clusters_address(module):
    """Address of the cluster that the rank's script has started, or has joined, by `ray start`. Ray itself would also
    look for processes, and find the job's own.
    """
    with contextlib.suppress(OSError, AttributeError):
        address = module.services.find_bootstrap_address(None)
        if address:
            return address
    raise ConnectionError(
        f"ray.init: rank {rank()} finds no Ray cluster, for the job's own carries its {world_size()} ranks."
        f" {ONE_FOR_ALL}; ray.init() without an address starts one in each rank"
    )


def _has_joined(module):
    """True if this process is in a Ray cluster that it has not started: that of its script."""
    return not getattr(getattr(module, "_global_node", None), "head", True)


def _warn():
    text = f"each of the {world_size()} ranks starts a Ray cluster of its own, which knows nothing of the others'."
    text = f"{text} {ONE_FOR_ALL}; for one on one machine ask for workers: 1 with all the GPUs"
    launcher.warn("ray-clusters", text)
    if rank() == 0:
        log_line(text)


class _RankProcesses:
    """psutil, whose list of processes holds only those of ranks."""

    def __init__(self, psutil):
        self._psutil = psutil

    def __getattr__(self, name):
        return getattr(self._psutil, name)

    def process_iter(self, *args, **kwargs):
        for process in self._psutil.process_iter(*args, **kwargs):
            with contextlib.suppress(self._psutil.Error):
                if "COTENANT_RANK" in process.environ():
                    yield process


def after_ray_commands(module):
    """`ray stop` ends every Ray on its machine. In a rank's script it ends those of the ranks only, not the one that
    runs the ranks.
    """
    if in_rank():
        module.psutil = _RankProcesses(module.psutil)


def after_ray_trainer(module):
    """End a training that asks the rank's own Ray for more than there is: Ray Train would wait for it for ever."""
    trainer = module.DataParallelTrainer
    original = trainer.fit

    @functools.wraps(original)
    def fit(self):
        shortage = _shortage(self.scaling_config) if in_rank() else ""
        if shortage:
            raise RuntimeError(shortage)
        return original(self)

    trainer.fit = fit


def _shortage(scaling):
    """What Ray Train asks for and the pod does not have, with what to do; empty if all is there, or may come."""
    import ray

    if scaling.max_workers < 1:
        return ""  # it trains in this process
    if not ray.is_initialized():
        ray.init()  # as it would itself
    if not _started:
        return ""
    there = ray.cluster_resources()
    least = scaling.min_workers / scaling.max_workers  # the total is for all that it may grow to
    for name, total in sorted(scaling.total_resources.items()):
        amount, found = total * least, there.get(name, 0)
        if amount > found:
            return (
                f"Ray Train asks for {amount:g} {name}, and the Ray of rank {rank()} has {found:g}. Let num_workers and"
                f" resources_per_worker fit into one worker of the job, or give it more. {ONE_FOR_ALL}"
            )
    return ""


_MAX_WRAPPED = 8
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def brought(error):
    """(the exception as it was raised in the other process, its frames there) for an exception of Ray; others are
    unchanged.
    """
    frames = []
    for _ in range(_MAX_WRAPPED):
        inner = _inside(error)
        if not isinstance(inner, BaseException) or inner is error:
            break
        frames = _FRAME.findall(str(error)) or frames  # Ray's exceptions show the traceback of the other process
        error = inner
    return error, [(name, int(line), function) for name, line, function in frames]


def _inside(error):
    """The exception inside one of Ray's: of a task or an actor, or of the first worker of Ray Train that failed."""
    if not any(base.__module__.startswith("ray.") for base in type(error).__mro__):
        return None
    failures = getattr(error, "worker_failures", None)
    if isinstance(failures, dict) and failures:
        return failures[min(failures)]
    names = ("cause", "controller_failure", "_base_exc")
    return next((getattr(error, name) for name in names if getattr(error, name, None) is not None), None)
