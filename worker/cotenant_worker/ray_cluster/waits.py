"""Waits in the start of Ray: polled every 20 ms, instead of Ray's sleeps of seconds, up to the rendezvous timeout."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import Any

from cotenant.contract import Contract
from cotenant_worker.host.addresses import host_and_port

_POLL_S = 0.02


def raylet() -> Any:
    """Ray's compiled core, which has no types."""
    import ray._raylet

    return ray._raylet


def retry_get_node(get_node: Any) -> Any:
    """Retry `get_node`: Ray gives a raylet 30 s to become known, and a busy machine needs more."""

    def wait(*args: Any, **kwargs: Any) -> Any:
        end = time.monotonic() + _rendezvous_timeout_s()
        while True:
            try:
                return get_node(*args, **kwargs)
            except RuntimeError:
                if time.monotonic() > end:
                    raise
            time.sleep(5 * _POLL_S)

    return wait


def _rendezvous_timeout_s() -> int:
    return Contract.from_environment(os.environ).rendezvous_timeout_s


def await_port(host: str, port: int, timeout_s: float) -> bool:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1.0):
            return True
        time.sleep(_POLL_S)
    return False


def await_head(address: str) -> None:
    """Wait until the head's raylet is known to its GCS, because Ray would wait for both in steps of seconds.

    Raises TimeoutError after the job's rendezvous timeout: the head's pod may still be pulling its image.
    """
    patience_s = _rendezvous_timeout_s()
    end = time.monotonic() + patience_s
    if await_port(*host_and_port(address), patience_s):
        client = raylet().GcsClient(address=address)
        while time.monotonic() < end:
            if client.get_all_node_info(timeout=5):
                return
            time.sleep(_POLL_S)
    raise TimeoutError(f"nothing answered at {address} within {patience_s} s")
