"""The control daemon of one GPU, as a child of this process."""

from __future__ import annotations

import contextlib
import subprocess
from typing import Final

from cotenant_agent.mps.configuration import GpuFolder, MpsError
from cotenant_agent.mps.control_program import PROGRAM, ControlProgram

QUIT_S: Final = 10.0


class GpuDaemon:
    """The MPS daemon of one GPU. With `multi_user` it serves clients of every user, which needs root; otherwise
    those of this user."""

    def __init__(self, folder: GpuFolder, program: str = PROGRAM, *, multi_user: bool = True) -> None:
        self.control = ControlProgram(folder, program)
        self._users = ["-m"] if multi_user else []
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Raises MpsError if the program is missing."""
        folder = self.control.folder
        for made in (folder.pipes, folder.logs):
            made.mkdir(parents=True, exist_ok=True)
        command = [self.control.program, "-f", "-p", "3", *self._users, "-a", str(folder.file)]
        output = (folder.logs / "daemon.log").open("ab")
        try:
            self._child = subprocess.Popen(
                command, env=self.control.environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        except OSError as error:
            raise MpsError(f"{self.control.program} cannot be started: {error.strerror}") from error
        finally:
            output.close()

    def ended(self) -> str:
        """How it ended, with its last output; empty while it runs."""
        code = None if self._child is None else self._child.poll()
        if code is None:
            return ""
        try:
            lines = (self.control.folder.logs / "daemon.log").read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return f"the daemon ended with {code}" + (f": {lines[-1][:200]}" if lines else "")

    def stop(self) -> None:
        """End it and its clients. It is asked first, and killed if it does not end."""
        with contextlib.suppress(MpsError):
            self.control.quit()
        if self._child is None:
            return
        try:
            self._child.wait(QUIT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child = None
