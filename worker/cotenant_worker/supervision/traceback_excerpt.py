"""Finds in the last lines of a program the line that names its error, the user's frame in which it arose, and what to
do about it. Pure.

For ranks without an error file, and for messages that contain a traceback of another process. More lines may follow a
traceback: what libraries print when a process ends, or the rest of a long message. A traceback of torch has a rank in
front of every line and ends in torch; the tenant needs their own line that led there. Libraries are recognized by their
folder. A folder of libraries on PYTHONPATH (`pip install --target`) is recognized because the job's code is elsewhere:
of two frames, the one in the job's code counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

EXCERPT_LINES = 20
MAX_LINE_CHARS = 300
"""Characters of the line that names the error."""

_RANK = re.compile(r"^\[rank\d+\]: ?")
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<name>.+))?$')
_GRAPH_ERROR = re.compile(r"^[\w.]+: Graph execution error:\s*$")
"""An error of TensorFlow. Its message has the frames in which the operation was made, and below them what happened."""
_GRAPH_NODE = re.compile(r"^Detected at node|^<stack|^Stack trace for")
_CELL = re.compile(r"^Cell In\[(\d+)\], line (\d+)")
"""A frame in a notebook, as IPython writes it and papermill and nbconvert show it."""
_CELL_ERROR = re.compile(r"^[A-Za-z_][\w.]*: .|^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)$")
_CARETS = re.compile(r"^\s*[~^]+\s*$")
_LIBRARY = re.compile(r"site-packages/|dist-packages/|/lib/python3|^<frozen |^<__array|/cotenant_worker/")
_NOISE = re.compile(
    r"^\s|^\[[EWI]\d{3,} |^\[W|Exception ignored in|[A-Za-z]Warning: |resource_tracker|destroy_process_group"
    r"|^$|^-{20,}$|^For simplicity, JAX has removed its internal frames"
)
"""Lines that may follow a traceback: indented ones of its message, and what libraries add."""
_LAUNCHER_LINE = re.compile("^cotenant: ")
_CRASH = re.compile("^Fatal Python error: ")
_CRASH_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<name>.+)$')
_OUR_CRASH_FRAME = re.compile(r'^\s*File "(?:[^"]*/cotenant_worker/[^"]+|<frozen runpy>)", line \d+ in ')
"""How `faulthandler` writes the frame in which a signal arrived, innermost first."""

_NO_COMPILER = re.compile(
    r"No working C\+\+ compiler found|Failed to find C compiler|InvalidCxxCompiler|(g\+\+|gcc|cc): not found"
    r"|No such file or directory: '(g\+\+|gcc|cc|c\+\+|clang(\+\+)?)'"
)
"""How torch.compile and Triton's kernels fail without a compiler."""
_COMPILER_HINT = (
    ". This image has no compiler, which torch.compile and Triton need: install g++ in it, or use the default image"
)
_NO_SUCH_GPU = re.compile(r"invalid device ordinal")
"""How `torch.cuda.set_device(rank)` fails in a rank that sees fewer GPUs."""
_ORDINAL_HINT = (
    ". The rank sees only its own GPUs: choose one by LOCAL_RANK. If all ranks are in one pod, gpuVisibility: Pod in"
    " spec.runtime shows them all of its GPUs"
)
_READ_ONLY_CODE = re.compile(
    r"Read-only file system: '(/workspace/|(?!/))|[ '‘](/workspace/|(?![/'‘ :]))[^ '’]*['’]?: Read-only file system"
)
"""How Python, and how the tools of a shell fail to write into the folder of the code, by any path."""
_READ_ONLY_HINT = (
    ". Code is mounted read-only. A program starts in a folder of its code in which it may write: leave out"
    " `cd /workspace`, or write to COTENANT_CHECKPOINT_DIR or /tmp"
)
_READ_ONLY = re.compile(r"Read-only file system|Permission denied: '/root\b|‘/root[/’].*: Permission denied")
_ELSEWHERE_HINT = (
    ". The image is mounted read-only, and its user is not root: write to /tmp, COTENANT_CHECKPOINT_DIR or a volume,"
    " and install packages when the image is built"
)
_SHARED_MEMORY = re.compile(
    r"\bBus error|shared memory (limit|segment /dev/shm)|shared memory\(shm\)|'/psm_|(</torch_|/dev/shm).*No space left"
)
"""How torch, its loader workers, Python and NCCL fail if /dev/shm is full. Writing there ends a process by SIGBUS."""
_SHARED_MEMORY_HINT = (
    ". Its shared memory is full: /dev/shm holds half of the pod's memory. Ask for more in resources.memory, or use"
    " fewer loader workers"
)
_WINDOWS = re.compile(r"\\r['’].*(No such file|not found)|\\r: (invalid|command not found)|interpreter '[^']*\\r'")
"""How shells, env, Python and the launcher fail on a script whose lines end with a carriage return."""
_WINDOWS_HINT = (
    ". The lines of the script end as on Windows: convert it (dos2unix, or `*.sh text eol=lf` in .gitattributes)"
)
_NO_CHECKPOINT = re.compile(r"No valid checkpoint found in output directory")
"""How transformers' Trainer fails in the first attempt of a job that is told to resume."""
_NO_CHECKPOINT_HINT = (
    ". The first attempt of a job has no checkpoint yet: resume from get_last_checkpoint(output_dir) of"
    " transformers.trainer_utils, which is None then"
)
_UNREACHED = re.compile(
    r"\[Errno 1(01|10)\]|Max retries exceeded with url|Connection to \S+ timed out|[Cc]onnect ?[Tt]imeout"
    r"|connect to (host |the endpoint URL|'https?://|\S+ port )"
)
"""How urllib, requests, httpx, aiohttp, botocore, curl and transformers fail if nothing answers."""
_UNREACHED_HINT = (
    ". Pods reach their own job and DNS, and networks that the administrator has opened (egress_cidrs): have the data"
    " fetched by spec.data, or put them on a volume"
)
_HINTS = (
    (_NO_COMPILER, _COMPILER_HINT),
    (_NO_SUCH_GPU, _ORDINAL_HINT),
    (_READ_ONLY_CODE, _READ_ONLY_HINT),
    (_WINDOWS, _WINDOWS_HINT),
    (_NO_CHECKPOINT, _NO_CHECKPOINT_HINT),
)
_HINTS_OF_ERROR = (
    (_READ_ONLY, _ELSEWHERE_HINT),
    (_SHARED_MEMORY, _SHARED_MEMORY_HINT),
    (_UNREACHED, _UNREACHED_HINT),
)
"""For lines that many programs also print and go on after, such as matplotlib without a folder for its cache."""


def advice(lines: Sequence[str], error: Sequence[str]) -> str:
    """What to do about an error that many programs meet in a pod, as sentences; otherwise empty. `lines` are the last
    ones, or those of the exception; `error` those that surely name the error.
    """
    known = ((how, hint, found) for hints, found in ((_HINTS, lines), (_HINTS_OF_ERROR, error)) for how, hint in hints)
    return next((hint for how, hint, found in known if any(how.search(line) for line in found)), "")


def error_line(lines: Sequence[str], home: Sequence[str] = ()) -> tuple[str, str]:
    """The line that names the error, and a frame such as `train.py:6, in train`; each may be empty. `home` has the
    job's code.
    """
    lines = [_RANK.sub("", line) for line in lines]
    crashed = max((index for index, line in enumerate(lines) if _CRASH.match(line)), default=None)
    if crashed is not None:
        return shortened(lines[crashed]), _frame_of_crash(lines[crashed:], home)
    frames = [index for index, line in enumerate(lines) if _FRAME.match(line)]
    begin = _last_traceback(lines)
    graph = next((index for index in range(begin, len(lines)) if _GRAPH_ERROR.match(lines[index])), None)
    if graph is not None:
        return _error_of_graph(lines, frames, graph, home)
    printed = [line for line in lines if not _NOISE.search(line)]
    last = (printed or lines or [""])[-1].strip()
    if not frames:
        return shortened(last), ""
    below = range(frames[-1] + 1, len(lines))
    error = next((index for index in below if lines[index].strip() and not lines[index].startswith((" ", "\t"))), None)
    if error is None or any(not _NOISE.search(line) and not _LAUNCHER_LINE.match(line) for line in lines[error + 1 :]):
        return shortened(last), ""  # it went on after that traceback, and ended by something else
    return shortened(lines[error].strip()), _frame_of_traceback(lines, frames, home)


def embedded_error(lines: Sequence[str], home: Sequence[str]) -> tuple[str, str] | None:
    """The `error_line` of an exception's text that contains the traceback of another process, graph or notebook;
    otherwise None.
    """
    cells = [match for match in map(_CELL.match, lines) if match]
    if cells:
        named = [line for line in lines if _CELL_ERROR.match(line)]
        return (shortened(named[-1]), f"cell {cells[-1][1]}, line {cells[-1][2]}") if named else None
    if not any(_FRAME.match(line) for line in lines):
        return None
    line, frame = error_line(lines, home)
    return (line, frame) if frame else None


def is_crash(lines: Sequence[str]) -> bool:
    """True if `faulthandler` reported a signal. Earlier output then did not end the program."""
    return any(_CRASH.match(line) for line in lines)


def _error_of_graph(lines: Sequence[str], frames: Sequence[int], at: int, home: Sequence[str]) -> tuple[str, str]:
    below = lines[max([at, *frames]) + 1 :]
    errors = [line for line in below if not _NOISE.search(line) and not _GRAPH_NODE.match(line)]
    kind = lines[at].partition(":")[0].rpartition(".")[2]
    return shortened(f"{kind}: {errors[0] if errors else 'graph execution error'}"), _frame_of_traceback(
        lines, frames, home
    )


def excerpt(lines: Sequence[str]) -> tuple[str, ...]:
    """The last lines, without the frames of libraries if those would push out the user's own."""
    kept = [line for line in lines if not _CARETS.match(_RANK.sub("", line)) and not _OUR_CRASH_FRAME.match(line)]
    if len(kept) > EXCERPT_LINES:
        kept = _without_libraries(kept)
    return tuple(kept[-EXCERPT_LINES:])


def _frame_of_traceback(lines: Sequence[str], frames: Sequence[int], home: Sequence[str]) -> str:
    """The innermost of the user's own frames in the last traceback."""
    begin = _last_traceback(lines)
    return _job_frame([_FRAME.match(lines[index]) for index in reversed(frames) if index >= begin], home)


def _last_traceback(lines: Sequence[str]) -> int:
    return max((index for index, line in enumerate(lines) if line.lstrip().startswith("Traceback (most")), default=0)


def _frame_of_crash(lines: Sequence[str], home: Sequence[str]) -> str:
    return _job_frame([_CRASH_FRAME.match(line) for line in lines], home)


def _job_frame(frames: Sequence[re.Match[str] | None], home: Sequence[str]) -> str:
    """The innermost frame of the job's code; otherwise the innermost outside libraries; otherwise nothing."""
    mine = [match for match in frames if match and not _LIBRARY.search(match["file"])]
    at_home = (match for match in mine if _is_job_code(match["file"], home))
    chosen = next(at_home, mine[0] if mine else None)
    return _formatted(chosen) if chosen else ""


def _is_job_code(file: str, home: Sequence[str]) -> bool:
    """True for the job's code. Frames of a program that is started by a relative path have that path."""
    if not file.startswith("/"):
        return bool(home) and not file.startswith("<")
    return any(file.startswith(f"{directory.rstrip('/')}/") for directory in home)


def _formatted(match: re.Match[str]) -> str:
    where, name = f"{Path(match['file']).name}:{match['line']}", match["name"] or "<module>"
    return where if name == "<module>" else f"{where}, in {name}"


def _without_libraries(lines: Sequence[str]) -> list[str]:
    """The lines without frames of libraries. A frame is its line and, mostly, an indented one with the source."""
    kept: list[str] = []
    skipping = -1
    for line in lines:
        bare = _RANK.sub("", line)
        match = _FRAME.match(bare)
        depth = len(bare) - len(bare.lstrip())
        if match:
            skipping = depth if _LIBRARY.search(match["file"]) else -1
        elif depth <= skipping:
            skipping = -1
        if skipping < 0:
            kept.append(line)
    return kept


def shortened(text: str) -> str:
    """The line, cut to `MAX_LINE_CHARS`."""
    return text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]} …"
