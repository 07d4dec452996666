"""The shim in every Python process of a rank: GPU memory limits before user code, defaults for frameworks, a heartbeat.

It uses the stdlib only, because it is loaded by path into any interpreter of the image (3.8 and later). It imports
nothing of `cotenant_worker`; only `reporting`, `all_reduce` and `phases` use it from there. Every Python process pays
for it, so the patches of a framework are loaded when that framework is imported, and `launcher_client` when there is
something to send.

It changes only this: a cap on the GPU memory pool, gloo if NCCL cannot work, JAX's missing arguments, a count of
optimizer steps, and output of spawned processes by whole lines. `python -S` avoids it, and so do `-I` and `-E` in
interpreters of other environments; the agent's watchdog catches those processes.
"""

from __future__ import annotations

import os
import sys

from .error_file import install_hook, record, watch_exits, watch_own_kills, watch_the_end
from .imports import watch_imports
from .main_process import in_rank, is_main_process

__all__ = ["announce", "install", "record"]


def install():
    """Install the shim, once per interpreter, before the first line of its program."""
    if in_rank() and not is_main_process():
        _write_whole_lines()
    if os.environ.get("COTENANT_GPUS") and os.environ.get("CUDA_VISIBLE_DEVICES", "0").replace(",", "").isdigit():
        from .memory import own_gpus

        if own_gpus():
            os.environ["CUDA_VISIBLE_DEVICES"] = own_gpus()
    watch_imports()
    install_hook()
    watch_exits()
    watch_own_kills()
    watch_the_end()
    announce()


def _write_whole_lines():
    """Send unbuffered output line by line.

    The processes that a rank spawns share its pipe, so parts of their lines would mix. The rank's own process keeps its
    buffering.
    """
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "write_through", False):
            stream.reconfigure(line_buffering=True, write_through=False)


def announce():
    """Report the GPUs that a rank's process sees: at interpreter start, and after a fork of the fork server."""
    if "COTENANT_RESTART" in os.environ and in_rank() and is_main_process():
        from .launcher_client import launcher

        launcher.report_gpus([part for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part])


def __getattr__(name):
    """`launcher`, `rank_heartbeat` and `step_counter` of this process: one object each, under whichever name the
    package was loaded.
    """
    if name == "launcher":
        from .launcher_client import launcher

        return launcher
    if name == "rank_heartbeat":
        from .heartbeat import heartbeat

        return heartbeat
    if name == "step_counter":
        from .steps import step_counter

        return step_counter
    raise AttributeError(name)
