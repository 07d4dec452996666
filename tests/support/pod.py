"""One worker pod of a `PodSandbox`, seen from the host: its processes, log, termination message, HTTP pages."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cotenant.contract import Progress, Termination
from cotenant_local.host.patience import stretched
from tests.support.well_formed import well_formed

_FETCH = "import sys,urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1],timeout=60).read().decode())"


@dataclass(slots=True)
class Pod:
    index: int
    process: subprocess.Popen[bytes]
    directory: Path
    namespace: str
    started: float

    @property
    def launcher(self) -> int:
        """Host pid of the pod's PID 1."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def signal(self, number: int) -> None:
        os.kill(self.launcher, number)

    def kill(self) -> None:
        """Kill everything in it at once, as when its node dies."""
        with contextlib.suppress(ProcessLookupError, IndexError, FileNotFoundError):
            os.kill(self.launcher, signal.SIGKILL)

    def wait(self, deadline_s: float) -> int:
        return self.process.wait(stretched(deadline_s))

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def has_terminated(self) -> bool:
        """True once it has written a termination message."""
        return bool((self.directory / "termination").read_text())

    def termination(self) -> Termination:
        return well_formed(Termination.from_json((self.directory / "termination").read_text()))

    def get(self, path: str) -> str:
        url = f"http://10.77.0.{self.index + 1}:8099{path}"
        command = ["ip", "netns", "exec", self.namespace, sys.executable, "-S", "-c", _FETCH, url]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    def progress(self) -> Progress:
        return well_formed(Progress.from_json(self.get("/progress")))

    def rank_process(self, rank: int) -> int:
        """Host pid of a rank that was started warm."""
        for pid in self.processes(""):
            if Path(f"/proc/{pid}/comm").read_text().strip() == f"rank-{rank}":
                return pid
        raise FileNotFoundError(f"rank {rank} does not run")

    def processes(self, needle: str) -> list[int]:
        """Host pids inside this pod whose command line holds `needle`."""
        found = []
        frontier = [self.process.pid]
        while frontier:
            parent = frontier.pop()
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for task in Path(f"/proc/{parent}/task").iterdir():
                    frontier += [int(child) for child in (task / "children").read_text().split()]
                if needle in Path(f"/proc/{parent}/cmdline").read_bytes().replace(b"\0", b" ").decode():
                    found.append(parent)
        return found
