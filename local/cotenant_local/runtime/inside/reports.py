"""Reports of a forked child, that it is ready or why it could not start: JSON lines on a pipe to the runtime."""

import json
import os
from typing import Any


class SetupError(Exception):
    """A container cannot be set up as asked; the message goes into the pod's status."""


def encode(**document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


def send(fd: int, **document: Any) -> None:
    os.write(fd, encode(**document))


def describe(error: BaseException) -> str:
    """One line for a status message."""
    if isinstance(error, SetupError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.strerror or error}" + (f": {error.filename!r}" if error.filename else "")
    return f"{type(error).__name__}: {error}"
