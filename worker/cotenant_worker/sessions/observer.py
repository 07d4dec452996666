"""Asks the application of this pod for its activity, and reports changes to the launcher, as a rank does."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from cotenant_worker.reporting import launcher
from cotenant_worker.sessions.activity import Activity, of_code_server, of_jupyter, of_terminals
from cotenant_worker.sessions.application import LOOPBACK, Served

EVERY_S: Final = 3.0
LISTEN_S: Final = 0.2
TIMEOUT_S: Final = 5.0
BYTES_MAX: Final = 1 << 20
QUIETLY: Final = "?no_track_activity=1"
"""Header with which Jupyter does not count the question as activity."""
PTS: Final = Path("/dev/pts")

_DIRECTLY: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks without a proxy: an `HTTP_PROXY` that the pod has is for other hosts, and reaches no 127.0.0.1 of this pod."""

Ask: TypeAlias = Callable[[str], Any]
"""Path below that of the application → its answer as JSON. Raises OSError or ValueError."""


def listens(served: Served, ended: threading.Event) -> bool:
    """Wait until the application accepts connections. False if it has ended before."""
    while not ended.wait(LISTEN_S):
        with socket.socket() as probe:
            probe.settimeout(TIMEOUT_S)
            if probe.connect_ex((LOOPBACK, served.port)) == 0:
                return True
    return False


def ask_of(served: Served) -> Ask:
    def ask(path: str) -> Any:
        address = f"http://{LOOPBACK}:{served.port}{served.path}{path}"
        request = urllib.request.Request(address, headers={"Authorization": f"token {served.token}"})
        with _DIRECTLY.open(request, timeout=TIMEOUT_S) as answer:
            return json.loads(answer.read(BYTES_MAX))

    return ask


def look(kind: str, ask: Ask, terminals: Path = PTS) -> Activity | None:
    """Activity now; None if the application does not answer, or reports none."""
    try:
        if kind == "JupyterLab":
            return of_jupyter(ask(f"api/kernels{QUIETLY}"), _optional(ask, f"api/terminals{QUIETLY}"))
        if kind == "CodeServer":
            return of_code_server(ask("healthz"))
        if kind == "Shell":
            return of_terminals(_used_at(terminals))
    except (OSError, ValueError):
        return None
    return None


def _optional(ask: Ask, path: str) -> Any:
    """The answer; None if the server lacks that part."""
    try:
        return ask(path)
    except urllib.error.HTTPError:
        return None


def observe(kind: str, served: Served, ended: threading.Event) -> None:
    """Report until `ended`. The first report says that the application listens, whatever its kind."""
    ask, reported, found = ask_of(served), None, Activity(busy=False, active_at=None)
    while not ended.is_set():
        news = found.rounded()
        if news != reported and launcher.send(
            {"op": "activity", "busy": news.busy, "active_at_unix_s": news.active_at}
        ):
            reported = news
        ended.wait(EVERY_S)
        found = look(kind, ask) or found


def _used_at(folder: Path) -> list[float]:
    times = []
    for terminal in folder.iterdir() if folder.is_dir() else ():
        if terminal.name.isdigit():
            found = terminal.stat()
            times += [found.st_atime, found.st_mtime]
    return times
