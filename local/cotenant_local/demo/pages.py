"""The dashboard beside the demo: `cotenant dashboard` with the kubeconfig of the demo's cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMAND = (sys.executable, "-m", "cotenant", "dashboard", "-A")


@contextmanager
def dashboard(kubeconfig: Path, command: tuple[str, ...] = COMMAND) -> Iterator[str]:
    """Its address, good for one login while the block runs; empty if it does not start."""
    process = subprocess.Popen([*command, "--kubeconfig", str(kubeconfig)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield next((line.strip() for line in process.stdout if line.strip().startswith("http")), "")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
