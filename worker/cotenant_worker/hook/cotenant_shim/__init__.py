"""The shim in every Python process of a rank: GPU memory limits before user code, defaults for frameworks, a heartbeat.

Stdlib only and self-contained, because it is loaded by path into whatever interpreter the image has (3.8 and later); it
imports nothing of `cotenant_worker`, and only `reporting` and `all_reduce` come in from there. Every Python process of
a rank pays for it, so what adapts a framework is loaded when that framework is imported, and `launcher_client` when
there is something to send. It changes nothing else: a cap on the GPU memory pool, gloo where NCCL cannot work, JAX's
missing arguments, a count of optimizer steps, spawned processes' output by whole lines. It is cooperative:
`python -S`, `-I` and `-E` go round it, and the agent's watchdog is what catches those.
"""

from __future__ import annotations

import os
import sys

from .error_file import install_hook, record, watch_exits, watch_own_kills, watch_the_end
from .imports import watch_imports
from .main_process import in_rank, is_main_process

__all__ = ["announce", "install", "record"]


def install():
    """Once per interpreter, before its program's first line."""
    if in_rank() and not is_main_process():
        _write_whole_lines()
    watch_imports()
    install_hook()
    watch_exits()
    watch_own_kills()
    watch_the_end()
    announce()


def _write_whole_lines():
    """Send unbuffered output line by line, not piece by piece: the processes that a rank spawns share its pipe, and
    what they print must not mix within a line. The rank's own process loses nothing, however it ends, and stays as
    it is.
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
    """`launcher`, `rank_heartbeat` and `step_counter` of this process: one each, under whichever name it was loaded."""
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
