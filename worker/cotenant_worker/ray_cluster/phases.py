"""Start-up phases of Ray's node process, for the launcher's table of timings."""

from __future__ import annotations

import contextlib
import socket

from cotenant_worker.host import layout
from cotenant_worker.supervision.messages import MESSAGES, Hello, PhaseReached

_TIMEOUT_S = 5.0


def mark_phase(phase: str) -> None:
    """Report that `phase` is done. Without a launcher it does nothing, so that a start never fails because of it."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as launcher:
        launcher.settimeout(_TIMEOUT_S)
        launcher.connect(str(layout.socket_path()))
        launcher.sendall(MESSAGES.encode(Hello("node")) + MESSAGES.encode(PhaseReached(phase)))
