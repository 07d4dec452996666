"""SIGTERM and SIGINT of process 1: held from its first instruction, delivered once there is a handler.

The kernel drops a signal for process 1 that has no handler, but keeps one that is blocked: pid_namespaces(7), and
Linux's kernel/signal.c. Imports take a tenth of a second, in which a kubelet may ask the pod to end.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def hold() -> None:
    """Keep them until `deliver`. Nothing may be started meanwhile: children inherit the mask.

    A shell without job control makes what it starts in the background ignore SIGQUIT. Ranks begin without that, as in
    a pod: `leaving` tells by it which processes a shell of the job's own has started with `&`.
    """
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def deliver(loop: asyncio.AbstractEventLoop, terminate: Callable[[], None]) -> None:
    """Call `terminate` in the loop at each of them, also at those that have come already."""
    for number in SIGNALS:
        loop.add_signal_handler(number, terminate)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
