"""Finds the rank that failed first by itself, and why. Pure.

When one rank dies, its peers fail a moment later with "connection closed by peer". The job's verdict must name the
first failure. Rule: deaths by a signal come first, then the earliest failure that does not blame a peer. If all blame a
peer and one rank had already left with 0, that rank left too early.

An exception comes from the rank's error file (`RankError`). The patterns here and the text of `traceback_excerpt` are
then matched with its lines. The output is searched only if there is no such file: after signals and aborts of native
code, for programs that are not Python, and for those that leave by themselves (`sys.exit`, `os._exit`).
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Sequence

from cotenant import names
from cotenant_worker.messaging.records import record
from cotenant_worker.supervision.rank_error import RankError, blames_a_peer
from cotenant_worker.supervision.traceback_excerpt import (
    EXCERPT_LINES,
    advice,
    embedded_error,
    error_line,
    excerpt,
    is_crash,
    shortened,
)

_TENSORFLOW_INFO = re.compile(r"^I\d{4} ")
"""TensorFlow's information lines. One of them says that it has met its coordination service."""
_JAX_SHUTDOWN = re.compile(r'jax/_src/distributed\.py", line \d+ in shutdown')
"""JAX ends a rank by SIGABRT if it has waited too long for the end of the others. This is the place of that crash."""
_GPU_MEMORY = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|Cuda failure .*out of memory|OutOfMemoryError"
    r"|CUDA_ERROR_OUT_OF_MEMORY|Failed to CUDA [mc]alloc|RESOURCE_EXHAUSTED|ResourceExhausted"
    r"|CUBLAS_STATUS_ALLOC_FAILED"
)
"""How torch's allocator, torch without room for a context, NCCL, CuPy, the driver (Numba, JAX at its start), XLA,
TensorFlow and cuBLAS say so.
"""


_CHILD_KILLED = re.compile(
    r"DataLoader worker|killed by signal|signal SIGKILL|BrokenProcessPool|terminated abruptly|Cannot allocate memory"
    r"|^MemoryError|(?<![\w.])-9\b|SIGKILL"
)
"""What programs print when the kernel has killed one of their processes."""
_GPU_BROKEN = re.compile(r"uncorrectable (ECC|NVLink) error|CUDA_ERROR_(ECC|NVLINK)_UNCORRECTABLE")
"""How torch, JAX, TensorFlow and NCCL report a fault of the hardware. No program can cause one."""
_LOST_HINT = "as by a systemctl daemon-reload on the node"
_CLIENTS_JOINED = re.compile(r"\d+/(\d+) clients joined")
"""How torch's store gives up waiting for the processes of a group."""
EVERY_RANK_HINT = "Every rank must take part in every collective: look for an early return, or for uneven batches"
TRANSIT_S = 2.0
"""Events of two pods may overtake each other by this much. An end with 0 that arrives later may have been first."""


@record
class RankExit:
    """End of one rank of a generation."""

    rank: int
    generation: int
    code: int | None
    signal: int | None
    at: float
    stopped: bool = False
    """True if we stopped it, or its pod was lost."""
    oom: bool = False
    """True if the kernel killed a process in this pod for memory just before."""
    gpus_lost: bool = False
    """True if the kernel no longer let this pod open its GPUs."""
    sequence: int = -1
    """Number of collectives it had entered; -1 if unknown."""
    tail: tuple[str, ...] = ()
    own_kill: bool = False
    """True if one of its own processes sent the SIGKILL."""
    worked: bool = False
    """True if it had made a step, or passed a safe point."""
    home: tuple[str, ...] = ()
    """Directory of the job's code in its pod."""
    error: RankError | None = None
    """The exception that one of its processes recorded."""
    left_behind: tuple[str, ...] = ()
    """Command lines of its processes that still ran when its first one had ended well. They are killed."""

    @property
    def failed(self) -> bool:
        return not self.stopped and (self.signal is not None or self.code != 0)

    @property
    def collateral(self) -> bool:
        """True if its error blames a peer."""
        return (
            self.failed
            and self.signal in (None, signals.SIGABRT)
            and any(blames_a_peer(line) for line in self._blame if not _TENSORFLOW_INFO.match(line))
        )

    @property
    def _blame(self) -> Sequence[str]:
        """The lines that may blame a peer: of the exception, or of the output if there is no exception or the process
        crashed.
        """
        found = self.exception if self.signal is None else None
        return found.lines if found else self.tail[-EXCERPT_LINES:]

    @property
    def exception(self) -> RankError | None:
        """The recorded exception, if it ended the rank. It did not if a crash came later, or if the program went on."""
        if self.error is None or is_crash(self.tail):
            return None
        if self.error.by_child:
            line, frame = error_line(self.tail, self.home)
            return self.error if frame or line in self.error.text else None
        return self.error

    @property
    def in_jax_shutdown(self) -> bool:
        """True if its program had ended when it failed, while it waited for the others to end."""
        return self.signal == signals.SIGABRT and any(_JAX_SHUTDOWN.search(line) for line in self.tail)

    @property
    def conclusive(self) -> bool:
        """True if no later exit can change the verdict."""
        return self.signal is not None and not self.collateral


@record
class FailureCause:
    """Cause of a generation's failure."""

    reason: str
    rank: int | None
    code: int
    signal: int | None
    message: str
    tail: tuple[str, ...] = ()
    killed: bool = False
    """True if it was killed from outside, so that no program is to blame."""


def first_cause(exits: Sequence[RankExit], ranks: int = 0) -> FailureCause:
    """The cause of the first failure. `ranks` is their number in the group; 0 if unknown."""
    failed = sorted((each for each in exits if each.failed), key=lambda each: (each.at, each.rank))
    assert failed, "asked for a cause although nothing failed"
    own = [each for each in failed if not each.collateral]
    by_signal = [each for each in own if each.signal is not None]
    early = [each for each in exits if each.code == 0 and not each.stopped and each.at <= failed[0].at + TRANSIT_S]
    waited = [each for each in failed if each.in_jax_shutdown]
    if not own and early:
        return _left_early(min(early, key=lambda each: (each.at, each.rank)), failed[0])
    if not own and waited:
        return _abandoned_in_shutdown(waited[0], next((each for each in failed if each not in waited), None))
    return _describe((by_signal or own or failed)[0], ranks, collateral=not own)


def hidden_failure(exit_: RankExit) -> str:
    """What failed before a rank ended with 0, as of a shell after `python train.py | tee log`; empty if nothing did."""
    if exit_.code != 0 or exit_.stopped or exit_.error is None or not exit_.error.by_child:
        return ""
    return (
        f"; but a process of rank {exit_.rank} had failed: {_with_frame(*_recorded(exit_.error, exit_.home))}."
        " A shell script that begins with 'set -eo pipefail', and waits for each process (wait $PID), ends with its"
        " code"
    )


def _failed_before(exit_: RankExit) -> str:
    """The failure of a process of the rank that the output does not end with, as others print after it; or empty."""
    if exit_.error is None or not exit_.error.by_child or exit_.exception is not None:
        return ""
    return f"; a process of it had just failed: {_with_frame(*_recorded(exit_.error, exit_.home))}"


def _left_early(first: RankExit, victim: RankExit) -> FailureCause:
    where = f" after {first.sequence} collectives" if first.sequence >= 0 else ""
    return FailureCause(
        "ExitedEarly",
        first.rank,
        victim.code or 1,
        None,
        f"rank {first.rank} ended with 0{where} while others were still training; rank {victim.rank} then lost its"
        f" peer: {_error_of(victim)}. {EVERY_RANK_HINT}",
        excerpt(victim.tail),
    )


def _abandoned_in_shutdown(first: RankExit, other: RankExit | None) -> FailureCause:
    place = _line_and_frame(other)[1] if other else ""
    whom = f"rank {other.rank} was still at {place}" if other and place else "others were still training"
    message = (
        f"rank {first.rank} came to its end while {whom}, and waited there in jax.distributed.shutdown() until JAX gave"
        f" up. {EVERY_RANK_HINT}"
    )
    return FailureCause("ExitedEarly", first.rank, 1, None, message, excerpt((other or first).tail))


def _describe(exit_: RankExit, ranks: int, *, collateral: bool) -> FailureCause:
    tail = excerpt(exit_.tail)
    last = _error_of(exit_)
    lines = exit_.exception.lines if exit_.exception else tail
    if exit_.gpus_lost:
        message = f"rank {exit_.rank} failed after its pod had lost its GPUs, {_LOST_HINT}: {last}"
        return FailureCause("GPUsUnusable", exit_.rank, names.EXIT_GPUS_UNUSABLE, exit_.signal, message, tail)
    if exit_.signal not in (signals.SIGKILL, signals.SIGTERM) and any(_GPU_BROKEN.search(line) for line in lines):
        message = f"rank {exit_.rank} failed because a GPU is faulty: {last}"
        return FailureCause("GPUsUnusable", exit_.rank, names.EXIT_GPUS_UNUSABLE, exit_.signal, message, tail)
    if exit_.oom and exit_.signal == signals.SIGKILL:
        message = f"rank {exit_.rank} was killed by the kernel: out of host memory. Ask for more in resources.memory"
        return FailureCause("OutOfMemory", exit_.rank, 137, exit_.signal, message, tail)
    if exit_.signal is not None:
        name = signals.Signals(exit_.signal).name
        killed = exit_.signal in (signals.SIGKILL, signals.SIGTERM) and not exit_.own_kill
        ended = "ended itself" if exit_.own_kill else "was ended"
        message = f"rank {exit_.rank} {ended} by {name}" + ("" if killed else f": {last}{advice(tail, (last,))}")
        code = unreserved_code(128 + exit_.signal)
        return FailureCause("UserError", exit_.rank, code, exit_.signal, message, tail, killed=killed)
    code = exit_.code or 1
    if exit_.oom and any(_CHILD_KILLED.search(line) for line in (*lines, *tail)):
        message = (
            f"a process of rank {exit_.rank} was killed by the kernel: out of host memory. Ask for more in"
            f" resources.memory: {last}"
        )
        return FailureCause("OutOfMemory", exit_.rank, unreserved_code(code), None, message, tail)
    if code == names.EXIT_QUOTA and last.startswith("cotenant:"):
        return FailureCause("Quota", exit_.rank, code, None, f"rank {exit_.rank}: {last}", tail)
    if any(_GPU_MEMORY.search(line) for line in lines):
        line = last if _GPU_MEMORY.search(last) else next(line for line in reversed(lines) if _GPU_MEMORY.search(line))
        message = f"rank {exit_.rank} ran out of GPU memory; its limit is its share (gpu.memory): {line.strip()[:400]}"
        return FailureCause("OutOfGPUMemory", exit_.rank, code, None, message, tail)
    blame = " (all failures blame a peer; this one was the first)" if collateral else ""
    given, code = code, unreserved_code(code)
    note = f" (reported as {code}: {given} has a meaning of ours)" if given != code else ""
    hint = advice(lines, lines if exit_.exception else (last,)) or _missing_clients(lines, ranks)
    message = f"rank {exit_.rank} ended with {given}{note}{blame}: {last}{_failed_before(exit_)}{hint}"
    return FailureCause("UserError", exit_.rank, code, None, message, tail)


def _missing_clients(lines: Sequence[str], ranks: int) -> str:
    """What to do if a program has waited for more processes than the job has ranks; otherwise empty."""
    wanted = max((int(match[1]) for match in map(_CLIENTS_JOINED.search, lines) if match), default=0)
    if not 0 < ranks < wanted:
        return ""
    return f". The job has {ranks} rank(s): set workers: {wanted}, or start the others in the program"


def _error_of(exit_: RankExit) -> str:
    return _with_frame(*_line_and_frame(exit_)) or "it printed nothing"


def _with_frame(line: str, frame: str) -> str:
    return f"{line} ({frame})" if frame else line


def _line_and_frame(exit_: RankExit) -> tuple[str, str]:
    """The line that names the error, and the job's frame: as recorded, otherwise as the output shows them."""
    error = exit_.exception
    return _recorded(error, exit_.home) if error else error_line(exit_.tail, exit_.home)


def _recorded(error: RankError, home: Sequence[str]) -> tuple[str, str]:
    """The recorded error. Its message may contain the traceback of another process (`ProcessRaisedException`), or of a
    TensorFlow graph.
    """
    inner = embedded_error(error.text.splitlines(), home)
    if inner is not None:
        return inner
    first = next((line.strip() for line in error.message.splitlines() if line.strip()), "")
    return shortened(f"{error.type}: {first}" if first else error.type), error.frame


def ray_loss_reason(text: str) -> str:
    """Ray's several lines about a lost actor, as one clause."""
    because = re.search(r"because (its [^.\n]{1,100})", text)
    if because:
        return because[1]
    lines = text.strip().splitlines()
    return lines[0][:200] if lines else "Ray does not say why"


def unreserved_code(code: int) -> int:
    """A program's exit code that cannot be confused with one of ours."""
    reserved = {*names.PLATFORM_FAULTS, names.EXIT_QUOTA, names.EXIT_BAD_CONTRACT, names.EXIT_PREEMPTED}
    return 79 if code in reserved else code
