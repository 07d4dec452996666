"""This process's line to its launcher, and what it says there: steps, collectives entered, GPU memory, where it is."""

from __future__ import annotations

import atexit
import contextlib
import json
import mmap
import os
import socket
import struct
import sys
import threading
import time

from .main_process import rank, trains

_BEAT_S = 0.5
_WORDS = ("calls", "stop_at", "step", "sequence", "saved_step")


class Pulse:
    """This process's line to its launcher. Quiet when there is none: a program never fails because of it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._socket = None
        self._pid = 0
        self._thread = None
        self._cell = None
        self._pending = None
        self._sent_at = 0.0
        self._peak = 0
        self.counters = {}
        """Name → a function that counts the collectives entered there: in torch's process group, in our ring."""
        self.stirs = {}
        """Name → a function that counts whatever goes on there, collectives of some ranks only included."""
        self._counts = {}
        self.entered = 0
        """How often this rank has come to meet the others, in `init_process_group` or to form our ring."""
        self.inside = False
        """It waits there for the others."""
        self.met = False
        """It has met all ranks of the job."""
        self.mute = False
        """It meets the others by a framework whose collectives are not counted: they may go on unseen."""
        self.reports = 0
        """How often the program has said how far it is."""

    @property
    def rank(self):
        return rank()

    def cell(self):
        """The words shared with the launcher; None outside a rank."""
        if self._cell is None:
            path = os.path.join(os.environ.get("COTENANT_STATE_DIR", "/nowhere"), f"rank-{self.rank}.cell")
            with contextlib.suppress(OSError, ValueError), open(path, "r+b") as file:
                self._cell = mmap.mmap(file.fileno(), 64)
        return self._cell

    def word(self, name, value=None):
        cell = self.cell()
        if cell is None:
            return 0
        at = _WORDS.index(name) * 8
        if value is not None:
            struct.pack_into("<q", cell, at, value)
            return value
        return struct.unpack_from("<q", cell, at)[0]

    def send(self, message):
        with self._lock:
            if self._pid != os.getpid():  # never share a connection across a fork
                self._socket, self._pid = None, os.getpid()
            try:
                if self._socket is None:
                    self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                    self._socket.settimeout(5)
                    self._socket.connect(os.path.join(os.environ["COTENANT_STATE_DIR"], "launcher.sock"))
                    self._write({"op": "hello", "role": "rank", "rank": self.rank, "pid": self._pid})
                self._write(message)
            except (OSError, KeyError):
                self._socket = None
                return False
            return True

    def sees(self, uuids):
        """The GPUs that this process sees. A world that shrank has new numbers: say whose grant they are."""
        self.send({"op": "sees", "uuids": uuids, "grant": int(os.environ.get("COTENANT_GRANT", self.rank))})

    def _write(self, message):
        message.setdefault("rank", self.rank)
        self._socket.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def report(self, message):
        """Send now or, when the last one left a moment ago, with the next beat: a loop may call it every step."""
        now = time.monotonic()
        self.reports += 1
        if now - self._sent_at < 0.1:
            if self._pending and "metrics" in self._pending:
                message["metrics"] = dict(self._pending["metrics"], **message.get("metrics", {}))
            self._pending = message
            self.start(asked=True)
            return
        self._sent_at = now
        self._pending = None
        self.send(message)
        self.start(asked=True)

    def flush(self):
        message, self._pending = self._pending, None
        if message is not None:
            self.send(message)

    def start(self, asked=False):
        """The side thread; once per process. Of a rank's children in the one that trains, and in those that report."""
        if self._thread is None and (asked or trains()):
            self._thread = threading.Thread(target=self._run, name="cotenant", daemon=True)
            self._thread.start()
            atexit.register(self.last_words)

    def last_words(self):
        with contextlib.suppress(Exception):
            self.flush()
            self._memory()
            self._steps(final=True)

    def _run(self):
        counted = -1
        while True:
            time.sleep(_BEAT_S)
            with contextlib.suppress(Exception):
                self.flush()
                counted = self._steps(counted)
                number = self._collectives() if self.counters and not self.inside else -1
                if number >= 0:
                    self.word("sequence", number)
                self.send({"op": "beat", "beat": self._beat(number)})
                self._memory()

    def _collectives(self):
        """Entered by now, of whatever kind; of a group that was destroyed as many as it came to."""
        for name, count in list(self.counters.items()):
            with contextlib.suppress(Exception):
                self._counts[name] = int(count())
        return sum(self._counts.values())

    def _stirred(self):
        total = 0
        for count in list(self.stirs.values()):
            with contextlib.suppress(Exception):
                total += int(count())
        return total

    def _steps(self, counted=-1, final=False):
        step = self.word("step")
        if step > 0 and (final or step != counted):
            self.send({"op": "report", "step": step, "counted": True, "at": time.time()})
        return step

    def _beat(self, number):
        generation = int(os.environ.get("COTENANT_RESTART", "0"))
        where = main_thread_place()
        turns = self.reports + self.word("step") + self.word("calls") + self._stirred()
        return {
            "rank": self.rank,
            "generation": generation,
            "sequence": number,
            "location": where,
            "rendezvous_count": self.entered,
            "in_rendezvous": self.inside,
            "rendezvoused": self.met,
            "loop_count": turns,
            "uncounted": self.mute and not turns and not self.counters,
            "collective": "" if self.inside else main_thread_collective(),
        }

    @contextlib.contextmanager
    def meeting(self):
        """While this rank waits for the others."""
        self.entered += 1
        self.inside = True
        self.start()
        try:
            yield
        finally:
            self.inside = False

    def _memory(self):
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return
        peak = max((cuda.max_memory_reserved(i) for i in range(cuda.device_count())), default=0) >> 20
        if peak > self._peak:
            self._peak = peak
            self.send({"op": "memory", "peak_mib": peak})


pulse = Pulse()


def _main_frames():
    """What the main thread is in, the innermost first."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    while frame is not None:
        yield frame
        frame = frame.f_back


def main_thread_collective():
    """The collective of torch's that the main thread is in: `all_reduce`; empty where it is in none."""
    for frame in _main_frames():
        if frame.f_code.co_filename.endswith("distributed_c10d.py"):
            return frame.f_code.co_name
    return ""


def main_thread_place():
    """file:line of the main thread's innermost frame in the job's code, else of the innermost that is in no library."""
    where, homes = "", _homes()
    for frame in _main_frames():
        name = frame.f_code.co_filename
        at_home = name[:1] != "/" or name.startswith(homes)
        if (at_home or not where) and not any(part in name for part in _LIBRARY) and name[:1] != "<":
            where = f"{os.path.basename(name)}:{frame.f_lineno} in {frame.f_code.co_name}"
            if at_home:
                break
    return where


_LIBRARY = ("site-packages/", "dist-packages/", "/lib/python", "/cotenant_worker/")


def _homes():
    """Where the job's code lies, and where it is linked to. Behind it on PYTHONPATH may lie libraries."""
    code = os.environ.get("PYTHONPATH", "").split(":")[0] or "/nowhere"
    linked = os.path.join(os.environ.get("COTENANT_STATE_DIR", "/nowhere"), "work")
    return tuple(home.rstrip("/") + "/" for home in (code, os.path.realpath(code), linked))
