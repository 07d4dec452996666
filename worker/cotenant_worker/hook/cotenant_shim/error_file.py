"""The error files of a rank: the exception that ended one of its Python processes, for the launcher to read.

They serve every program as `@record` and TORCHELASTIC_ERROR_FILE serve torch's: {type, message, frame, time} as JSON,
one file for each process, so that the first failure of a parent and its child can be named. Output on stderr does not
change.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import sys
import time

_MAX_MESSAGE_CHARS = 4000
_MAX_NAME_CHARS = 200
_MAX_CHAIN = 8
"""Messages that are kept of a chain of exceptions (`raise ... from ...`)."""
_MAX_FRAMES = 2000

_started_at = time.time()
_left_with = []  # type: ignore[var-annotated]
"""PID of the process that has called `sys.exit`, and the exit code that this gives it."""
_handled_by = []  # type: ignore[var-annotated]
"""PID of the process whose exception was recorded when its program called `sys.exit`. A later exception replaces it."""


def install_hook():
    """Record the exception that the interpreter shows. Programs that replace `sys.excepthook` mostly call
    `sys.__excepthook__`.
    """
    show = sys.__excepthook__

    def excepthook(kind, error, trace):
        record(error, trace)
        show(kind, error, trace)

    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = excepthook
    sys.__excepthook__ = excepthook
    atexit.register(_record_what_ended_it)


def _record_what_ended_it():
    """Record the exception that a program's own hook has printed, such as rich's. The interpreter stores it before it
    calls the hook.

    The kernel of a notebook notes the exception of a cell too, and goes on.
    """
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if isinstance(error, Exception) and "ipykernel" not in sys.modules:
        record(error, error.__traceback__)


def watch_exits():
    """Record the exception that a program handles by `sys.exit(1)`, as Hydra and many a `main` do after printing it.

    If a program leaves with a text, that text is its own explanation.
    """
    leave = sys.exit

    @functools.wraps(leave)
    def noted_exit(status=None, *more):
        _left_with[:] = [os.getpid(), (status or 0) & 255 if isinstance(status or 0, int) else 1]
        error = sys.exc_info()[1]
        if isinstance(status, int) and status != 0 and isinstance(error, Exception):
            record(error, error.__traceback__)
            _handled_by[:] = [os.getpid()]
        return leave(status, *more)

    sys.exit = noted_exit


def watch_the_end():
    """Note which threads are left when the main thread ends, and whether the program has failed: the process stays
    until they end.
    """
    import threading

    def note():
        left = [each for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]
        path = _path()
        if path and (left or os.path.exists(path)):
            import json

            with contextlib.suppress(OSError), open(f"{path[: -len('.json')]}.returned", "w") as file:
                code = _left_with[1] if _left_with[:1] == [os.getpid()] else 0
                json.dump({"threads": [each.name[:_MAX_NAME_CHARS] for each in left[:8]], "code": code}, file)

    with contextlib.suppress(Exception):  # Python 3.9 and later
        threading._register_atexit(note)


_ENDS = (signal.SIGKILL, signal.SIGTERM)


def watch_own_kills():
    """Note that this process sends SIGKILL or SIGTERM to itself or to its rank, as engines and watchdogs do to end it.

    Without the note it would look like a kill from outside, after which the ranks start again.
    """
    watched = (
        (os, "kill", lambda pid: pid in (0, -1, os.getpid(), os.getsid(0))),
        (os, "killpg", lambda group: group in (0, os.getpgid(0), os.getsid(0))),
        (signal, "raise_signal", lambda: True),
        (signal, "pthread_kill", lambda thread: True),
    )
    for module, name, means_own in watched:
        noted = _noted(getattr(module, name), means_own)
        noted.__module__ = module.__name__  # where pickle finds it
        setattr(module, name, noted)


def _noted(send, means_own):
    """`send` with a note if its last argument, a signal, ends this process or its rank."""

    @functools.wraps(send)
    def noted(*arguments):
        with contextlib.suppress(Exception):
            if arguments[-1] in _ENDS and means_own(*arguments[:-1]):
                _note_own_kill(arguments[-1])
        return send(*arguments)

    return noted


def _note_own_kill(number):
    with contextlib.suppress(Exception):
        path = _path()
        if path:
            with open(f"{path[: -len('.json')]}.own-kill-{int(number)}", "w") as file:
                file.write(str(time.monotonic()))


def after_multiprocessing(module):
    """Record the exception that ends a child of `multiprocessing`, which prints it without calling a hook."""
    original = module.BaseProcess._bootstrap

    def bootstrap(self, *args, **kwargs):
        run, own = self.run, "run" in vars(self)

        def recorded():
            if own:
                self.run = run
            else:
                del self.run  # the program may pickle its process, and a function in here cannot be
            try:
                run()
            except Exception as error:
                record(error, error.__traceback__)
                raise

        self.run = recorded
        return original(self, *args, **kwargs)

    module.BaseProcess._bootstrap = bootstrap


def record(error, trace):
    """Write this process's error file, once. Does nothing outside a rank, or if the file cannot be written."""
    with contextlib.suppress(Exception):
        path = _path()
        if path and _handled_by == [os.getpid()]:
            _handled_by.clear()  # somebody caught the SystemExit: the program went on
            os.unlink(path)
        if path:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
                file.write(_document(error, trace))


def _path():
    from .main_process import in_rank, rank

    state, generation = os.environ.get("COTENANT_STATE_DIR"), os.environ.get("COTENANT_RESTART")
    if not state or generation is None or not in_rank():
        return ""
    return os.path.join(state, f"errors-{rank()}-{generation}", f"{os.getpid()}.json")


def _document(error, trace):
    import json

    frames = _frames(trace)
    if "ray" in sys.modules:
        from .own_ray import brought

        error, remote = brought(error)
        frames = remote or frames
    document = {
        "type": _type_name(error),
        "message": _message(error),
        "frame": _frame(error, frames),
        "time": time.time(),
        "started": _started_at,
        "chain": [f"{_type_name(each)}: {_message(each)}"[:_MAX_MESSAGE_CHARS] for each in _chain(error)],
    }
    return json.dumps(document)


def _type_name(error):
    """Name as a traceback shows it: `torch.OutOfMemoryError`, `ValueError`."""
    kind = type(error)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"[:_MAX_NAME_CHARS]


def _message(error):
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error)
    except Exception:
        text = "<exception str() failed>"
    half = _MAX_MESSAGE_CHARS // 2 - 2  # a notebook, or another traceback, has its error at the end
    return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[:half]}\n…\n{text[-half:]}"


def _chain(error):
    """The exceptions that led to this one, nearest first."""
    found = []
    while len(found) < _MAX_CHAIN:
        following = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if following is None or following in found:
            break
        found.append(following)
        error = following
    return found


def _frames(trace):
    """(file, line, function) of each frame, innermost last."""
    frames = []
    while trace is not None and len(frames) < _MAX_FRAMES:
        code = trace.tb_frame.f_code
        frames.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return frames


def _frame(error, frames):
    """`train.py:6, in train`: the innermost frame in the job's code, otherwise the innermost outside libraries."""
    from .heartbeat import code_directories, is_library

    homes = code_directories()
    if isinstance(error, SyntaxError) and error.filename:
        frames = [*frames, (error.filename, error.lineno, "<module>")]
    own = [each for each in reversed(frames) if not is_library(each[0])]
    at_home = [each for each in own if each[0][:1] != "/" or each[0].startswith(homes)]
    for name, line, function in (at_home or own)[:1]:
        where = f"{os.path.basename(name)}:{line}"[:_MAX_NAME_CHARS]
        return where if function == "<module>" else f"{where}, in {function}"[: 2 * _MAX_NAME_CHARS]
    return ""
