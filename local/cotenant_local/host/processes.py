"""Long-running processes under one init: started, restarted when they die, reaped, and the end of their logs kept.

Each init is PID 1 of a PID namespace, so every orphan becomes its child. One reaper per process: nothing else in an
init may wait for children outside the event loop's thread.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from cotenant_local.host import procfs

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10.0
STEADY_S: Final = 30.0
"""A process that ran this long is started again without a pause."""
TAIL_LINES: Final = 12


@dataclass(frozen=True)
class Service:
    name: str
    argv: tuple[str, ...]
    log: Path
    pass_fds: tuple[int, ...] = ()
    restart: bool = True


@dataclass(frozen=True)
class Death:
    service: str
    how: str
    """For example "exit code 1" or "signal 9 (SIGKILL)"."""
    last_lines: str
    at: float

    def describe(self) -> str:
        log_end = f"; its log ends:\n{self.last_lines}" if self.last_lines else "; its log is empty"
        return f"{self.service} died: {self.how}{log_end}"


@dataclass
class _Running:
    service: Service
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    pause: float = FIRST_PAUSE_S
    last: Death | None = None
    restart: asyncio.TimerHandle | None = None


class Processes:
    def __init__(self, on_death: Callable[[Death], None]) -> None:
        self._on_death = on_death
        self._services: dict[str, _Running] = {}
        self._loop = asyncio.get_running_loop()
        self._leaving: dict[int, asyncio.Event] = {}
        self._stopping = False
        self._loop.add_signal_handler(signal.SIGCHLD, self._reap)

    def start(self, service: Service) -> None:
        running = self._services[service.name] = _Running(service)
        self._spawn(running)

    def remove(self, name: str) -> None:
        """Forgets a service and kills it; its death is not reported."""
        running = self._services.pop(name, None)
        if running is None:
            return
        if running.restart:
            running.restart.cancel()
        if running.process:
            with contextlib.suppress(ProcessLookupError):
                running.process.kill()

    def kill(self, name: str) -> None:
        """Ends a service as if it had died: the death is reported, and the service restarted if it is configured so."""
        if (pid := self.pid(name)) is not None:
            os.kill(pid, signal.SIGKILL)

    def pid(self, name: str) -> int | None:
        running = self._services.get(name)
        return running.process.pid if running and running.process else None

    def deaths(self, name: str) -> int:
        return self._services[name].deaths if name in self._services else 0

    def status(self) -> dict[str, dict[str, object]]:
        return {
            name: {
                "pid": running.process.pid if running.process else None,
                "stopped": running.process is not None and procfs.any_stopped(running.process.pid),
                "restarts": running.deaths,
                "since": running.started,
                "lastDeath": asdict(running.last) if running.last else None,
            }
            for name, running in self._services.items()
        }

    async def stop(self, name: str, grace: float) -> None:
        """SIGTERM, and SIGKILL after `grace` seconds."""
        running = self._services.pop(name, None)
        if running is None or running.process is None:
            return
        pid, ended = running.process.pid, asyncio.Event()
        self._leaving[pid] = ended
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), grace)
        if not ended.is_set():
            os.kill(pid, signal.SIGKILL)

    def halt(self) -> None:
        """From now on, restarts nothing and reports no death."""
        self._stopping = True
        for running in self._services.values():
            if running.restart:
                running.restart.cancel()

    def _spawn(self, running: _Running) -> None:
        running.restart = None
        service = running.service
        try:
            with service.log.open("ab") as log:
                running.process = subprocess.Popen(
                    service.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=service.pass_fds,
                    start_new_session=True,
                )
        except OSError as error:
            self._died(running, f"cannot be started: {error}")
            return
        running.started = time.time()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if ended := self._leaving.pop(pid, None):
                    ended.set()
                for running in list(self._services.values()):
                    if running.process and running.process.pid == pid:
                        running.process.returncode = os.waitstatus_to_exitcode(status)
                        running.process = None
                        self._died(running, _how(status))

    def _died(self, running: _Running, how: str) -> None:
        if self._stopping:
            return
        running.deaths += 1
        death = running.last = Death(running.service.name, how, tail(running.service.log), time.time())
        if time.time() - running.started > STEADY_S:
            running.pause = FIRST_PAUSE_S
        if running.service.restart:
            self._restart_later(running)
        self._on_death(death)

    def _restart_later(self, running: _Running) -> None:
        running.restart = self._loop.call_later(running.pause, self._spawn, running)
        running.pause = min(2 * running.pause, LONGEST_PAUSE_S)


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"signal {number} ({signal.Signals(number).name})"
    return f"exit code {os.WEXITSTATUS(status)}"


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 16384))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"({log} cannot be read: {error.strerror})"
    return "\n".join(deque(text.splitlines(), maxlen=lines))
