"""Keeps a daemon for every GPU that has a configuration file: `python -m cotenant_agent.mps.keeper`, as PID 1.

It decides nothing: the agent writes and removes the files. If a daemon ends, it is started again with the file of that
moment; its clients have ended with it. A GPU is exclusive from before its daemon starts until after it has ended. The
file `running` is in its folder for as long, so that nobody gets the whole GPU in between.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import threading
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cotenant_agent.gpus.nvidia_smi import DEFAULT, EXCLUSIVE, set_mode
from cotenant_agent.mps.configuration import ROOT, SERVER, GpuFolder, MpsError
from cotenant_agent.mps.control_program import PROGRAM
from cotenant_agent.mps.gpu_daemon import GpuDaemon

log = logging.getLogger("cotenant.agent.mps")

TURN_S: Final = 0.5
RETRY_S: Final = 2.0
REPORT: Final = "keeper.json"
"""File in the root folder, written in every turn: what is wrong with each GPU."""


class Keeper:
    def __init__(self, root: Path, daemon: Callable[[GpuFolder], GpuDaemon] = GpuDaemon) -> None:
        self._root, self._daemon = root, daemon
        self._daemons: dict[Path, GpuDaemon] = {}
        self._uuids: dict[Path, str] = {}
        self._retry_at: dict[Path, float] = {}
        self._wrong: dict[Path, str] = {}

    def turn(self, now: float) -> None:
        """Start wanted daemons and stop others. `now` is any monotonic clock."""
        wanted = {path.parent for path in self._root.glob("*/mps.toml")}
        left = {path.parent for path in self._root.glob("*/running")}
        for path in sorted((self._daemons.keys() | left) - wanted):
            self._stop(GpuFolder(path))
        for path in sorted(wanted):
            self._keep(GpuFolder(path), now)
        self._report()

    def stop(self) -> None:
        """End all daemons, and their clients with them."""
        for path in sorted(self._daemons):
            self._stop(GpuFolder(path))

    def _keep(self, folder: GpuFolder, now: float) -> None:
        daemon = self._daemons.get(folder.path)
        ended = daemon.ended() if daemon is not None else ""
        if daemon is not None and not ended:
            self._wrong.pop(folder.path, None)
            return
        if ended:
            self._note(folder, ended)
            del self._daemons[folder.path]
        if now < self._retry_at.get(folder.path, 0.0):
            return
        self._retry_at[folder.path] = now + RETRY_S
        try:
            self._start(folder)
        except (MpsError, OSError, KeyError, tomllib.TOMLDecodeError) as error:
            self._note(folder, str(error) or type(error).__name__)

    def _start(self, folder: GpuFolder) -> None:
        document: Mapping[str, Any] = tomllib.loads(folder.file.read_text())
        uuid = str(document["servers"][SERVER]["allowed_devices"])
        folder.running.write_text(uuid)
        self._uuids[folder.path] = uuid
        if why := set_mode(uuid, EXCLUSIVE):
            log.warning("%s does not become exclusive, so nothing will be claimed of its compute: %s", uuid, why)
        daemon = self._daemon(folder)
        daemon.start()
        self._daemons[folder.path] = daemon
        log.info("MPS serves %s", uuid)

    def _stop(self, folder: GpuFolder) -> None:
        if (daemon := self._daemons.pop(folder.path, None)) is not None:
            daemon.stop()
        try:
            uuid = self._uuids.pop(folder.path, "") or folder.running.read_text()
        except OSError:
            return
        if why := set_mode(uuid, DEFAULT):
            self._note(folder, f"{uuid} stays exclusive: {why}")
            return
        folder.running.unlink(missing_ok=True)
        self._wrong.pop(folder.path, None)
        log.info("MPS serves %s no longer", uuid)

    def _note(self, folder: GpuFolder, why: str) -> None:
        if self._wrong.get(folder.path) != why:
            log.error("%s: %s", folder.path.name, why)
        self._wrong[folder.path] = why

    def _report(self) -> None:
        unfinished = self._root / f".{REPORT}.new"
        unfinished.write_text(json.dumps({path.name: why for path, why in sorted(self._wrong.items())}))
        unfinished.rename(self._root / REPORT)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="cotenant_agent.mps.keeper", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, metavar="FOLDER", help="of the host, shared with the agent")
    parser.add_argument("--program", default=PROGRAM, help="the control program of MPS")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    args.root.mkdir(parents=True, exist_ok=True)
    keeper = Keeper(args.root, daemon=lambda folder: GpuDaemon(folder, args.program))
    while not stop.is_set():
        keeper.turn(time.monotonic())
        stop.wait(TURN_S)
    keeper.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
