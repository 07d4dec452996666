"""Inside every Python process of a rank: memory limits before user code, defaults for frameworks, a pulse.

Stdlib only and self-contained, because it is loaded by path into whatever interpreter the image has (3.8 and later).
Every Python process of a rank pays for it, so what adapts a framework (`memory`, `torches`, `frameworks`) is loaded
when that framework is imported, and `beats` when there is something to say. It changes nothing else: a cap on the GPU
memory pool, gloo where NCCL cannot work, JAX's missing arguments, a count of optimizer steps, and a side thread that
tells the launcher how far we are. It is cooperative: `python -S`, `-I` and `-E` go round it, and the agent's watchdog
is what catches those.
"""

from __future__ import annotations

from .announce import begin
from .imports import watch_imports

__all__ = ["begin", "install"]


def install():
    """Called once per interpreter, before its program's first line."""
    watch_imports()
    begin()


def __getattr__(name):
    """`pulse`, for `cotenant_worker.reporting`: one per process, under whichever name this package was loaded."""
    if name != "pulse":
        raise AttributeError(name)
    from .heartbeat import pulse

    return pulse
