"""What the process of a rank says first. Apart from `main_process`, which `beats` itself asks."""

from __future__ import annotations

import os

from .main_process import is_main_process


def begin():
    """A rank's process has begun: say which GPUs it sees. Called at interpreter start, and after a fork by `warm`."""
    if "COTENANT_RESTART" in os.environ and "RANK" in os.environ and is_main_process():
        from .heartbeat import pulse

        seen = [part for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part]
        pulse.sees(seen)
