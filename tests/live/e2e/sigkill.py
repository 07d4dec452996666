"""SIGKILL from outside to the operator's process in a pod, without farewell: `python sigkill.py POD`."""

import contextlib
import os
import signal
import sys
from pathlib import Path


def main() -> None:
    (pod,) = sys.argv[1:]
    victims = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes()
            if f"HOSTNAME={pod}".encode() in environment and b"operator" in command:
                victims.append(int(folder.name))
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    sys.exit(None if victims else f"no process of {pod} was found")


main()
