"""Waits for a daemon of MPS, as tests and benchmarks do; the keeper does not."""

from __future__ import annotations

import time

from cotenant_agent.mps.configuration import MpsError
from cotenant_agent.mps.control_program import READY
from cotenant_agent.mps.gpu_daemon import GpuDaemon


def wait_ready(daemon: GpuDaemon, seconds: float = 20.0) -> None:
    """Return once clients may come. Raises MpsError with the daemon's words."""
    deadline = time.monotonic() + seconds
    while True:
        if ended := daemon.ended():
            raise MpsError(ended)
        try:
            status = daemon.control.server_status()
        except MpsError as error:
            status = str(error)
        if status == READY:
            return
        if time.monotonic() > deadline:
            raise MpsError(f"the server is not ready: {status}")
        time.sleep(0.1)
