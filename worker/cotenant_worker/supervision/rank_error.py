"""The exception that ended a rank, as the rank's own process recorded it. Pure.

The tenant's program could have written anything there. `parse` returns bounded, plain and finite values only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cotenant_worker.host.output_lines import as_text
from cotenant_worker.messaging.records import record

_COLLATERAL = re.compile(
    r"closed by peer|ncclRemoteError|ncclSystemError|remote process exited"
    r"|Socket Timeout|DistNetworkError|DistStoreError|connectFullMesh|Coordination service"
    r"|coordination_service|CoordinationService|UnavailableError|failed to recv|PeerGone",
)
_ANY_CONNECTION = re.compile(r"reset by peer|Broken pipe|Connection refused|Connection aborted")
"""Errors of any connection, also one to a hub or a store. They blame a peer only if a library by which ranks meet
raised them.
"""
_MEETING = re.compile(
    r"gloo|nccl|c10d|TCPStore|Dist\w*Error|torch\.distributed|tensorpipe|jax|xla|tensorflow|horovod|grpc|cotenant|ray\.",
    re.IGNORECASE,
)

MAX_BYTES = 64 << 10
"""Size of an error file. A larger file is ignored."""
_MAX_MESSAGE_CHARS = 4000
_MAX_FIELD_CHARS = 400
_MAX_CHAIN = 8
_TOGETHER_S = 10.0
"""A failure in a child may explain its parent's failure up to this much later. The parent survived an older one."""


def blames_a_peer(line: str) -> bool:
    """True for an error line that says that a rank, or a process of one, lost another."""
    return bool(_COLLATERAL.search(line) or (_ANY_CONNECTION.search(line) and _MEETING.search(line)))


@record
class RankError:
    """One exception."""

    type: str
    """Such as `torch.OutOfMemoryError`."""
    message: str
    """Lines. The first one names the error, unless the message contains the traceback of another process."""
    frame: str
    """Such as `train.py:6, in train`; empty if no frame is in the job's code."""
    time: float
    """Unix seconds."""
    pid: int
    started: float
    """Unix seconds at which its process began."""
    by_child: bool = False
    """True if the rank's own process recorded nothing: it may have survived this failure and ended by another."""
    chain: tuple[str, ...] = ()
    """The exceptions that led to it (`raise ... from ...`): type and message of each, nearest first."""

    @property
    def text(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type

    @property
    def lines(self) -> list[str]:
        """Lines of this exception and of those that led to it."""
        return "\n".join((self.text, *self.chain)).splitlines()


def parse(data: bytes, pid: int) -> RankError | None:
    """The error in the text; None if it is no error file of the shim or of torch's `@record`."""
    if len(data) > MAX_BYTES:
        return None
    try:
        raw = json.loads(data.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    if "type" not in raw:
        return _of_torch(raw, pid)
    chain = raw.get("chain")
    return RankError(
        type=_line(raw.get("type")),
        message=_text(raw.get("message")),
        frame=_line(raw.get("frame")),
        time=_number(raw.get("time")),
        pid=pid,
        started=_number(raw.get("started")),
        chain=tuple(_text(each) for each in chain[:_MAX_CHAIN]) if isinstance(chain, list) else (),
    )


def parse_returned(data: bytes) -> tuple[tuple[str, ...], int] | None:
    """(names of the threads, exit code) of a program that has returned; None for anything else."""
    try:
        raw = json.loads(data[:MAX_BYTES].decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or not isinstance(raw.get("threads"), list):
        return None
    code = raw.get("code")
    given = code if isinstance(code, int) and 0 <= code < 256 else 0
    return tuple(_line(name) for name in raw["threads"][:_MAX_CHAIN]), given


def _of_torch(raw: dict[str, Any], pid: int) -> RankError | None:
    """`{"message": {"message": "ValueError: empty", "extraInfo": {"py_callstack": ..., "timestamp": "1"}}}`."""
    inner = raw.get("message")
    if not isinstance(inner, dict):
        return None
    more = inner.get("extraInfo")
    more = more if isinstance(more, dict) else {}
    kind, _, message = _text(inner.get("message")).partition(": ")
    stack = _text(more.get("py_callstack"))
    time = _number(more.get("timestamp"))
    # The stack stands where a message with another process's traceback has it.
    return RankError(kind, f"{message}\n{stack}".rstrip(), "", time, pid, time) if kind else None


def first_failure(
    errors: Sequence[RankError], pid: int, ended_at: float, *, succeeded: bool = False
) -> RankError | None:
    """The error that ended process `pid`, the rank, at `ended_at` (Unix seconds), or the error that led to it.

    That is the earliest error that does not blame a peer (the processes of a rank may train with one another), within
    the life of the process that failed last and not long before that failure. If the rank itself recorded none, as a
    shell, only a failure just before its end counts. If it `succeeded`, as a loop of a shell over seeds does whatever
    became of them, an older failure in the job's own code counts too.
    """
    by_child = all(each.pid != pid for each in errors)
    if by_child:
        recent = [each for each in errors if each.time >= ended_at - _TOGETHER_S]
        errors = recent or [each for each in errors if succeeded and each.frame]
    if not errors:
        return None
    last = max(errors, key=lambda each: each.time)
    since = max(last.started, last.time - _TOGETHER_S)
    named = [each for each in errors if f"(pid: {each.pid})" in last.message]  # by torchrun, however late it is
    together = named or [each for each in errors if each.time >= since] or [last]
    own = [each for each in together if not any(blames_a_peer(line) for line in each.lines)]
    first = min(own or together, key=lambda each: each.time)
    return replace(first, by_child=by_child)


def _text(value: Any) -> str:
    """Text without colors and control characters, except line ends."""
    text = value[:_MAX_MESSAGE_CHARS] if isinstance(value, str) else ""
    return "\n".join(as_text(line.encode(errors="replace")) for line in text.splitlines())


def _line(value: Any) -> str:
    return _text(value)[:_MAX_FIELD_CHARS].replace("\n", " ")


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0
