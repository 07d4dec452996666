"""The heartbeat of a rank: a thread that sends twice a second how far the rank is and where its main thread is.

`hangs` and `stalls` judge by its content: collectives entered, rendezvous, iterations of the loop, the running line of
the job's code. Reports of progress that follow one another too fast are sent with it.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import os
import signal
import sys
import threading
import time

from .launcher_client import launcher
from .main_process import count_uses, is_training_process, rank

_INTERVAL_S = 0.5
_STOP_S = 2.0
_SETTLED_STEPS = 20
"""After this many steps a program has used all GPUs that it will use."""
_REPORT_INTERVAL_S = 0.1
"""Reports within this time are merged and sent with the next heartbeat."""


class SideThread:
    """A thread that the program does not see: some programs wait until they have no other (`threading.active_count()`).

    It takes no signals: a program may block one in all its threads, except the thread that waits for it by sigwait().
    The new thread inherits the signal mask of the one that starts it, so it never takes one, even before it runs.
    """

    _FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL})

    def __init__(self, work, interval_s):
        self._work, self._interval_s = work, interval_s
        self._stopped = threading.Event()
        self._pid = os.getpid()
        self._running = _thread.allocate_lock()
        self._running.acquire()
        own_mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - self._FAULTS)
            _thread.start_new_thread(self._run, ())
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, own_mask)

    def _run(self):
        while not self._stopped.wait(self._interval_s):
            with contextlib.suppress(Exception):
                self._work()
        self._running.release()

    def stop(self, patience_s):
        """Let the thread end, and wait for it. A child that was forked has none."""
        if self._pid == os.getpid():
            self._stopped.set()
            if self._running.acquire(timeout=patience_s):
                self._running.release()


class Heartbeat:
    def __init__(self):
        self._thread = None
        self._sent_step = -1
        atexit.register(self.stop)  # the first to register is the last to be called
        self._pending_report = None
        self._reported_at = 0.0
        self._memory_peak_mib = 0
        self._looked_at_gpus = False
        self.collectives = {}
        """Name → a function that counts collectives entered: in torch's process group, and in that of `all_reduce`."""
        self.activity = {}
        """Name → a function that counts any activity there, including collectives of some ranks only."""
        self._entered = {}
        self.rendezvous_count = 0
        """How often this rank has come to a rendezvous: `init_process_group`, or the first `all_reduce`."""
        self.in_rendezvous = False
        """True while it waits for the others there."""
        self.meeting = 0
        """How many processes meet there, itself included; 0 if unknown."""
        self.rendezvoused = False
        """True once all ranks of the job have met."""
        self.uncounted = False
        """True if the ranks meet by a framework whose collectives are not counted and may go on unseen."""
        self.timeout = lambda: 0.0
        """The longest timeout of the process groups, in seconds."""
        self.reports = 0
        """Number of reports of progress by the program."""

    def report(self, message):
        """Send now, or with the next heartbeat if the last report was a moment ago. A loop may call it in every
        step.
        """
        now = time.monotonic()
        self.reports += 1
        if self.reports == 1:
            launcher.set_counter("trainer", os.getpid())
        if now - self._reported_at < _REPORT_INTERVAL_S:
            if self._pending_report and "metrics" in self._pending_report:
                message["metrics"] = dict(self._pending_report["metrics"], **message.get("metrics", {}))
            self._pending_report = message
            self.start(reports=True)
            return
        self._reported_at = now
        self._pending_report = None
        launcher.send(message)
        self.start(reports=True)

    def flush(self):
        message, self._pending_report = self._pending_report, None
        if message is not None:
            launcher.send(message)

    def start(self, reports=False):
        """Start the thread, once per process: in the rank's process that trains, and in those that report."""
        if self._thread is None and (reports or is_training_process()):
            self._thread = SideThread(self._beat_once, _INTERVAL_S)
            atexit.register(self.flush_at_exit)

    def stop(self):
        """End the thread before the interpreter ends.

        The thread calls compiled code. If the interpreter ends while it waits to return, the process aborts ("terminate
        called without an active exception", SIGABRT).
        """
        if self._thread is not None:
            self._thread.stop(_STOP_S)

    def flush_at_exit(self):
        with contextlib.suppress(Exception):
            self.flush()
            self._report_memory()
            self._report_steps(final=True)
            self._send_beat()  # the last count: one of half a second ago would stand behind the other ranks' for ever

    @contextlib.contextmanager
    def rendezvous(self, size=0):
        """Marks the time in which this rank waits for `size` processes."""
        self.meeting = size
        self.rendezvous_count += 1
        self.in_rendezvous = True
        self.start()
        try:
            yield
        finally:
            self.in_rendezvous = False

    def _beat_once(self):
        self.flush()
        self._sent_step = self._report_steps(self._sent_step)
        self._send_beat()
        self._report_memory()

    def _send_beat(self):
        sequence = self.count_collectives() if self.collectives and not self.in_rendezvous else -1
        if sequence >= 0:
            launcher.set_counter("sequence", sequence)
        launcher.send({"op": "heartbeat", **self._beat(sequence)})

    def count_collectives(self):
        """Collectives entered until now, of all kinds. Called before a group is destroyed too, so that it counts on."""
        for name, count in list(self.collectives.items()):
            with contextlib.suppress(Exception):
                self._entered[name] = int(count())
        return sum(self._entered.values())

    def _activity(self):
        total = 0
        for count in list(self.activity.values()):
            with contextlib.suppress(Exception):
                total += int(count())
        return total

    def _report_steps(self, reported=-1, final=False):
        step = launcher.get_counter("step")
        if step > 0 and (final or step != reported):
            launcher.send({"op": "report", "step": step, "counted": True, "at_monotonic_s": time.monotonic()})
        return step

    def _beat(self, sequence):
        """A `RankHeartbeat` for the launcher."""
        location = main_thread_location()
        counted = launcher.get_counter("step") + launcher.get_counter("calls")
        loop_count = self.reports + counted + self._activity()
        return {
            "rank": rank(),
            "generation": int(os.environ.get("COTENANT_RESTART", "0")),
            "sequence": sequence,
            "location": location,
            "rendezvous_count": self.rendezvous_count,
            "in_rendezvous": self.in_rendezvous,
            "meeting": self.meeting if self.in_rendezvous else 0,
            "rendezvoused": self.rendezvoused,
            "loop_count": loop_count,
            "uncounted": self.uncounted and not loop_count and not self.collectives,
            "collective": "" if self.in_rendezvous else main_thread_collective(),
            "timeout_s": self._timeout_s(),
        }

    def _timeout_s(self):
        """Seconds that the program lets collectives take; 0 if unknown."""
        with contextlib.suppress(Exception):
            return float(self.timeout())
        return 0.0

    def _report_memory(self):
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return
        held = [cuda.max_memory_reserved(i) for i in range(cuda.device_count())]
        self._warn_of_idle_gpus(held)
        peak = max(held, default=0) >> 20
        if peak > self._memory_peak_mib:
            self._memory_peak_mib = peak
            launcher.send({"op": "memory", "peak_mib": peak})

    def _warn_of_idle_gpus(self, held):
        """Warn once, after the first steps, if the only process of the only rank of its pod leaves GPUs unused."""
        if self._looked_at_gpus or launcher.get_counter("step") < _SETTLED_STEPS:
            return
        self._looked_at_gpus = True
        used, alone = sum(each > 0 for each in held), os.environ.get("COTENANT_POD_RANKS") == "1"
        if alone and 0 < used < len(held) and count_uses("cuda") == 1:
            text = f"rank {rank()} uses {used} of its {len(held)} GPUs, from one process. For a process on each say"
            text += f" workers: {len(held)} and gpu.count: 1 in the job, or start the program by torchrun; else ask for"
            launcher.warn(f"idle-gpus-{rank()}", f"{text} {used}")


heartbeat = Heartbeat()


def _main_thread_frames():
    """The frames of the main thread, innermost first."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    while frame is not None:
        yield frame
        frame = frame.f_back


def main_thread_collective():
    """The collective of torch in which the main thread is: `all_reduce`; empty if it is in none."""
    for frame in _main_thread_frames():
        if frame.f_code.co_filename.endswith("distributed_c10d.py"):
            return frame.f_code.co_name
    return ""


def main_thread_location():
    """file:line of the main thread's innermost frame in the job's code, otherwise of the innermost outside
    libraries.
    """
    location, homes = "", code_directories()
    for frame in _main_thread_frames():
        name = frame.f_code.co_filename
        at_home = name[:1] != "/" or name.startswith(homes)
        if (at_home or not location) and not is_library(name):
            location = f"{os.path.basename(name)}:{frame.f_lineno} in {frame.f_code.co_name}"
            if at_home:
                break
    return location


_LIBRARY = ("site-packages/", "dist-packages/", "/lib/python", "/cotenant_worker/")


def is_library(filename):
    """True also for code without a file, such as `<frozen runpy>`."""
    return filename[:1] == "<" or any(part in filename for part in _LIBRARY)


def code_directories():
    """Directories of the job's code, and those to which it is linked."""
    code = os.environ.get("COTENANT_CODE_DIR") or "/nowhere"
    linked = os.path.join(os.environ.get("COTENANT_STATE_DIR", "/nowhere"), "work")
    return tuple(home.rstrip("/") + "/" for home in (code, os.path.realpath(code), linked))
