"""The port of a session on this machine, while a `with` block runs: through the verb `session open` and kubectl."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cotenant.sdk.errors import RequestRefusedError


@contextmanager
def forwarded(words: Sequence[str]) -> Iterator[str]:
    """The address that the command prints first, once kubectl forwards, so that it answers.

    The command and everything that it started end with the block. Raises RequestRefusedError with its output if it ends
    before.
    """
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            line = process.stdout.readline().split()
            if not any(later.startswith("Forwarding from") for later in process.stdout):
                process.wait()
                said.seek(0)
                raise RequestRefusedError(said.read().strip() or "the session could not be opened")
            threading.Thread(target=process.stdout.read, daemon=True).start()  # kubectl tells of each connection
            yield line[0]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
