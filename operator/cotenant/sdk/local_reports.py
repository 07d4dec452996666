"""Reports of local ranks: the launcher's socket, as the worker's library knows it."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any, Final

SOCKET: Final = "launcher.sock"
LINE_BYTES: Final = 1 << 20


class LocalReports:
    """Listens in `folder`. Each process of a rank connects once and sends one JSON object per line."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SOCKET
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._readers: list[threading.Thread] = []
        self._reported: dict[int, dict[str, Any]] = {}
        self._values: dict[int, dict[str, Any]] = {}

    def listen(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(self._path))
        self._socket.listen()
        threading.Thread(target=self._accept, args=(self._socket,), name="cotenant-reports", daemon=True).start()

    def close(self) -> None:
        """Read everything that the ranks have sent, after they have ended."""
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)  # closing alone wakes nobody who accepts
            self._socket.close()
            self._socket = None
            self._path.unlink(missing_ok=True)
        for reader in self._readers:
            reader.join(timeout=5.0)

    def progress(self) -> dict[str, Any]:
        """Progress of the slowest rank; empty before all have reported."""
        with self._lock:
            if not self._reported:
                return {}
            slowest = min(self._reported.values(), key=lambda one: one["step"])
            return {"step": slowest["step"], "of": slowest["of"], "metrics": mean_values(self._numbers())}

    def results(self) -> dict[str, Any]:
        """Results as in a job's status: the last metrics and values. Numbers are averaged over the ranks that gave
        them, texts come from the lowest rank.
        """
        with self._lock:
            return mean_values(self._numbers()) | mean_values([self._values[rank] for rank in sorted(self._values)])

    def _numbers(self) -> list[dict[str, Any]]:
        return [self._reported[rank].get("metrics") or {} for rank in sorted(self._reported)]

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            reader = threading.Thread(target=self._read, args=(connection,), daemon=True)
            self._readers.append(reader)
            reader.start()

    def _read(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            while line := lines.readline(LINE_BYTES):
                try:
                    self._take(json.loads(line))
                except (ValueError, KeyError, TypeError, AttributeError):  # a program may write what it likes
                    continue

    def _take(self, message: dict[str, Any]) -> None:
        rank = int(message["rank"])
        with self._lock:
            if message["op"] == "report":
                self._reported[rank] = {**message, "step": int(message["step"]), "of": int(message["of"])}
            elif message["op"] == "results":
                self._values.setdefault(rank, {}).update(message["values"])


def mean_values(ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """Values as in a cluster's status: numbers averaged over those that have them, texts of the first."""
    found: dict[str, Any] = {}
    for key in dict.fromkeys(key for values in ranks for key in values):
        given = [values[key] for values in ranks if key in values]
        numbers = [one for one in given if isinstance(one, int | float) and not isinstance(one, bool)]
        found[key] = sum(numbers) / len(numbers) if len(numbers) == len(given) else given[0]
    return found
