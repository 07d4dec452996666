"""This process's connection to its launcher: messages over a unix socket, and the counters that both share.

A program never fails because of it: without a launcher messages are dropped, and counters read 0.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import socket
import struct
import threading

from .main_process import rank

_COUNTERS = ("calls", "stop_at", "step", "sequence", "saved_step")
"""In the order of `shared_counters`."""
_COUNTERS_BYTES = 64
_TIMEOUT_S = 5


class LauncherClient:
    """One per process; it connects at the first message, and again after a fork."""

    def __init__(self):
        self._lock = threading.Lock()
        self._socket = None
        self._pid = 0
        self._counters = None

    def send(self, message):
        """True where the message left. `rank` is added to it."""
        with self._lock:
            if self._pid != os.getpid():  # never share a connection across a fork
                self._socket, self._pid = None, os.getpid()
            try:
                if self._socket is None:
                    self._connect()
                self._write(message)
            except (OSError, KeyError):
                self._socket = None
                return False
            return True

    def warn(self, key, text):
        """A warning in the job's progress; one per `key`, and an empty text takes it back."""
        return self.send({"op": "warning", "key": key, "text": text})

    def report_gpus(self, uuids):
        """The GPUs that this process sees, and the contract's rank that they were granted to: worlds shrink."""
        self.send({"op": "visible-gpus", "uuids": uuids, "grant": int(os.environ.get("COTENANT_GRANT", rank()))})

    def _connect(self):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_TIMEOUT_S)
        self._socket.connect(os.path.join(os.environ["COTENANT_STATE_DIR"], "launcher.sock"))
        self._write({"op": "hello", "role": "rank", "rank": rank(), "pid": self._pid})

    def _write(self, message):
        message.setdefault("rank", rank())
        self._socket.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def get_counter(self, name):
        """0 outside a rank."""
        counters = self._shared()
        return struct.unpack_from("<q", counters, _COUNTERS.index(name) * 8)[0] if counters is not None else 0

    def set_counter(self, name, value):
        counters = self._shared()
        if counters is not None:
            struct.pack_into("<q", counters, _COUNTERS.index(name) * 8, value)

    def _shared(self):
        """The memory-mapped counters; None outside a rank."""
        if self._counters is None:
            path = os.path.join(os.environ.get("COTENANT_STATE_DIR", "/nowhere"), f"rank-{rank()}.counters")
            with contextlib.suppress(OSError, ValueError), open(path, "r+b") as file:
                self._counters = mmap.mmap(file.fileno(), _COUNTERS_BYTES)
        return self._counters


launcher = LauncherClient()
