"""SIGTERM and SIGINT of process 1: held from its first instruction, and delivered once there is a handler.

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
    """Block the signals until `deliver`. Start nothing meanwhile, because children inherit the mask.

    A shell without job control makes its background processes ignore SIGQUIT. Ranks start without that, as in a pod: by
    it, `leaving` recognizes the processes that a shell of the job has started with `&`.
    """
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def deliver(loop: asyncio.AbstractEventLoop, terminate: Callable[[], None]) -> None:
    """Call `terminate` in the loop for each of the signals, including those that have come already."""
    for number in SIGNALS:
        loop.add_signal_handler(number, terminate)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
