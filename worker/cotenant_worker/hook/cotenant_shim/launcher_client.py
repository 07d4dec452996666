"""This process's connection to its launcher: messages over a unix socket, and counters in shared memory.

It never makes a program fail: without a launcher, messages are dropped and counters read 0.
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

_COUNTERS = ("calls", "stop_at", "step", "sequence", "listener", "trainer")
"""In the order of `shared_counters`."""
_COUNTERS_BYTES = 64
_TIMEOUT_S = 5


class LauncherClient:
    """One per process. It connects at the first message, and again after a fork.

    It holds a bare descriptor, which no finalizer closes: a finalizer would raise a ResourceWarning at the end of
    programs that show those, and could close a file of the program's.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._descriptor = -1
        self._identity = (0, 0)
        self._pid = 0
        self._counters = None
        os.register_at_fork(after_in_child=self._unlock)

    def _unlock(self):
        """In a child: the thread that held the lock when it was forked is not there."""
        self._lock = threading.Lock()

    def send(self, message):
        """Send a message, with `rank` added. True if it was sent."""
        with self._lock:
            if self._pid != os.getpid() or not self._is_own():  # never share a connection across a fork
                self._close()
                self._pid = os.getpid()
            try:
                if self._descriptor < 0:
                    self._connect()
                self._write(message)
            except (OSError, KeyError):
                self._close()
                return False
            return True

    def warn(self, key, text):
        """A warning in the job's progress, one per `key`. An empty text withdraws it."""
        return self.send({"op": "warning", "key": key, "text": text})

    def report_gpus(self, uuids):
        """The GPUs that this process sees, and the rank in the contract to which they were granted: worlds may
        shrink.
        """
        self.send({"op": "visible-gpus", "uuids": uuids, "grant": int(os.environ.get("COTENANT_GRANT", rank()))})

    def _connect(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            # In the kernel: a timeout of Python's own would leave the descriptor non-blocking.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", _TIMEOUT_S, 0))
            connection.connect(os.path.join(os.environ["COTENANT_STATE_DIR"], "launcher.sock"))
            self._identity = _identity(connection.fileno())
            self._descriptor = connection.detach()
        self._write({"op": "hello", "role": "rank"})

    def _is_own(self):
        """False if the program has closed our descriptor, as daemons do. Its number may then be a file of the
        program's.
        """
        try:
            return _identity(self._descriptor) == self._identity
        except OSError:
            return False

    def _close(self):
        if self._is_own():
            os.close(self._descriptor)
        self._descriptor = -1

    def _write(self, message):
        message.setdefault("rank", rank())
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        while data:
            data = data[os.write(self._descriptor, data) :]

    def get_counter(self, name):
        """The counter; 0 outside a rank."""
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


def _identity(descriptor):
    """Device and inode, which identify an open file."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


launcher = LauncherClient()
