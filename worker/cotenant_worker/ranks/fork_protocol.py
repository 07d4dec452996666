"""Messages between the launcher and its fork server: one JSON datagram each over a socket pair.

A stream is not used, because the descriptor of the rank's output travels with a `ForkRequest`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from cotenant_worker.messaging.codec import Codec
from cotenant_worker.messaging.records import record
from cotenant_worker.ranks.program import ProgramKind

DATAGRAM_LIMIT_BYTES = 1 << 20


@record
class PreloadDone:
    """Message of the server: the required modules are imported."""

    at_monotonic_s: float


@record
class ForkRequest:
    """Request to the server: fork a rank. The descriptor for its stdout and stderr is attached."""

    env: dict[str, str]
    cwd: str
    kind: ProgramKind
    argv: tuple[str, ...]


@record
class Forked:
    """Answer of the server: the rank is forked."""

    pid: int
    """0 if the fork failed."""


@record
class PreloadNext:
    """Request to the server: deferred imports may use CPU time from now on."""


ForkMessage: TypeAlias = PreloadDone | ForkRequest | Forked | PreloadNext

FORK_MESSAGES: Final[Codec[ForkMessage]] = Codec(
    {"preload-done": PreloadDone, "fork": ForkRequest, "forked": Forked, "preload-next": PreloadNext}
)
