"""A process with the imports done, that forks ranks: `python -m … fork_server FD REQUIRED DEFERRED`, one per pod.

Importing torch takes seconds; it happens here while Ray forms the cluster, once for all ranks of the pod, and a rank
that was killed starts again in milliseconds. CUDA is not touched before the fork. Ranks wait for the modules REQUIRED
(separated by commas). DEFERRED, which a rank imports later anyway, is imported by a replacement of this server, which
then takes over: on request, or after some seconds without one. A rank that is requested meanwhile waits: it would not
be quicker.

Not Python's `multiprocessing.forkserver`, which can preload modules too, because a rank is no worker of its parent:
- A rank has to be a child of process 1, which adopts it (it is forked twice), signals its session and gets its exit
  status from `waitpid`; there it stays a child of the server, which passes a status on through a pipe.
- It runs the user's program as `__main__`, with environment, working directory, stdout and stderr of its own; there
  `__main__` is the parent's, and the child unpickles a target.
- There a preload happens once, before the first fork; DEFERRED is for when no rank waits.
- It brings `multiprocessing` into process 1, and its resource tracker beside it; the launcher starts with less.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback

from cotenant_worker.host.process_title import name_process, show_as_ours, show_as_program
from cotenant_worker.ranks.fork_protocol import DATAGRAM_LIMIT_BYTES, FORK_MESSAGES, Forked, ForkRequest, PreloadDone
from cotenant_worker.ranks.program import Program

_IDLE_S = 3.0
"""By then the ranks of a first start have imported DEFERRED themselves, and leave CPU time to others."""
_REPLACEMENT_TIMEOUT_S = 10.0
"""Deadline for a replacement, if a rank is requested."""


class ReplacementServer:
    """The server that takes over with DEFERRED imported, and the pipe to the server that started it."""

    def __init__(self, deferred: list[str]) -> None:
        self.deferred = deferred
        """Empty once a replacement was started."""
        self.server_end = -1
        """In the server: readable once the replacement is ready or gone."""
        self.replacement_end = -1
        """In the replacement, which keeps it open while it lives."""
        self._pid = 0
        self._started_at = 0.0

    @property
    def starting(self) -> bool:
        return self.server_end >= 0 and time.monotonic() < self._started_at + _REPLACEMENT_TIMEOUT_S

    @property
    def select_timeout_s(self) -> float | None:
        """Seconds that the server may sleep without a request; None means without end."""
        return _IDLE_S if self.deferred else _REPLACEMENT_TIMEOUT_S if self.starting else None

    def start(self) -> None:
        """Fork the replacement. Returns at once in the server, and once DEFERRED is imported in the replacement."""
        deferred, self.deferred = self.deferred, []
        if not deferred:
            return
        self._started_at = time.monotonic()
        self.server_end, self.replacement_end = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(self.replacement_end)
            self.replacement_end = -1
            return
        os.close(self.server_end)
        self.server_end = -1
        preload_at_low_priority(deferred)
        os.write(self.replacement_end, b"1")

    def hand_over(self) -> None:
        """Hand over, in the server, when its end is readable. It stays as the parent of a serving replacement, and ends
        with it.
        """
        if os.read(self.server_end, 1):
            os.read(self.server_end, 1)
            os._exit(0)
        os.waitpid(self._pid, 0)
        self.close()

    def close(self) -> None:
        for descriptor in (self.server_end, self.replacement_end):
            if descriptor >= 0:
                os.close(descriptor)
        self.server_end = self.replacement_end = -1


def serve(control: socket.socket, deferred: list[str]) -> ForkRequest:
    """Fork a rank for each request. Returns only in a rank, with its request. The server ends with its launcher."""
    replacement = ReplacementServer(deferred)
    while True:
        waiting = [] if replacement.starting else [control.fileno()]
        waiting += [end for end in (replacement.server_end,) if end >= 0]
        found = select.select(waiting, [], [], replacement.select_timeout_s)[0]
        if not found:
            replacement.start()
            continue
        if replacement.server_end in found:
            replacement.hand_over()
            continue
        try:
            data, descriptors, _, _ = socket.recv_fds(control, DATAGRAM_LIMIT_BYTES, 1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue  # the replacement was quicker
        if not data:
            os._exit(0)
        request = FORK_MESSAGES.decode(data)
        if not isinstance(request, ForkRequest):
            replacement.start()
            continue
        read_end, write_end = os.pipe()
        middle = os.fork()
        if middle == 0:
            rank = os.fork()
            if rank:
                os.write(write_end, str(rank).encode())
                os._exit(0)
            os.close(read_end)
            os.close(write_end)
            control.close()
            replacement.close()
            _become_rank(request, descriptors[0])
            return request
        os.close(write_end)
        os.close(descriptors[0])
        pid = os.read(read_end, 32)
        os.close(read_end)
        os.waitpid(middle, 0)
        control.send(FORK_MESSAGES.encode(Forked(int(pid or b"0"))))


def _become_rank(request: ForkRequest, output: int) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for descriptor in (null, output):
        if descriptor > 2:
            os.close(descriptor)
    signal.set_wakeup_fd(-1)
    locale = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}  # Python sets it in the C locale
    os.environ.clear()
    os.environ.update(locale | request.env)
    os.chdir(request.cwd)
    if "multiprocessing.process" in sys.modules:
        # multiprocessing remembers the working directory of its import. Spawned children look for the program there.
        vars(sys.modules["multiprocessing.process"])["ORIGINAL_DIR"] = request.cwd
    _draw_seeds()
    gc.unfreeze()
    name_process(f"rank-{os.environ.get('COTENANT_RANK', '?')}")
    with contextlib.suppress(Exception):
        show_as_program(Program(request.kind, request.argv).command(sys.executable), request.env)
    if "cotenant_shim" in sys.modules:
        sys.modules["cotenant_shim"].announce()


def _draw_seeds() -> None:
    """Draw new random states for numpy and torch, which drew theirs when they were imported.

    Otherwise all ranks of a pod, and all later starts, would have the same noise, dropout and shuffles.
    """
    if "numpy" in sys.modules:
        with contextlib.suppress(Exception):
            sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        with contextlib.suppress(Exception):
            sys.modules["torch"].default_generator.seed()


def preload(modules: list[str]) -> None:
    """Import without the garbage collector, which would scan the growing heap repeatedly: a sixth of torch's import
    time.

    One collection at the end leaves ranks as after an ordinary import. A module that is not there fails again in the
    program, where the tenant sees it. One that fails halfway ends this process: a second import in it would fail by
    something else (numpy and torch cannot be loaded twice), so ranks start without a fork.
    """
    gc.disable()
    for name in modules:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name.partition(".")[0]:
                _give_up(name)
        except BaseException:
            _give_up(name)
    gc.collect()
    gc.freeze()
    gc.enable()


def _give_up(name: str) -> None:
    traceback.print_exc()
    print(f"{name} cannot be imported ahead", file=sys.stderr, flush=True)  # noqa: T201 - its own log
    os._exit(1)


def preload_at_low_priority(modules: list[str]) -> None:
    """`preload` with the CPU time that ranks leave.

    A thread that ends with the imports is made nice. This thread is not: that could not be undone without privileges,
    and forked ranks would inherit it.
    """

    def behind_all_others() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        preload(modules)

    thread = threading.Thread(target=behind_all_others)
    thread.start()
    thread.join()


def main() -> None:
    if not sys.flags.safe_path:
        sys.path.pop(0)  # the working directory. With -P it would not be there, but ranks would inherit that flag
    show_as_ours("cotenant-fork")
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    preload([name for name in sys.argv[2].split(",") if name])
    control.send(FORK_MESSAGES.encode(PreloadDone(time.monotonic())))
    request = serve(control, [name for name in sys.argv[3].split(",") if name])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from cotenant_worker.ranks.program_runner import hides_imported, run

    program = Program(request.kind, request.argv)
    if hides_imported(program):
        command = program.command(sys.executable)
        os.execv(command[0], command)
    sys.exit(run(program))


if __name__ == "__main__":
    main()
