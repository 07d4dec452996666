"""Start-up phases of Ray's node process, for the launcher's table of timings."""

from __future__ import annotations

import contextlib

from cotenant_worker.hook import cotenant_shim


def mark_phase(phase: str) -> None:
    """Report that `phase` is done. Without a launcher it does nothing, so that a start never fails because of it."""
    with contextlib.suppress(ValueError):  # an image may have a RANK that is no number
        cotenant_shim.launcher.send({"op": "phase", "phase": phase})
