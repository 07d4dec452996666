"""Messages between the launcher and its fork server: one datagram each over a socket pair, in JSON.

No stream as elsewhere: with a `ForkRequest` travels the descriptor of the rank's output.
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
    """Request to the server: fork a rank. Its stdout and stderr are the descriptor that comes along."""

    env: dict[str, str]
    cwd: str
    kind: ProgramKind
    argv: tuple[str, ...]


@record
class Forked:
    """Answer of the server: the rank is forked."""

    pid: int
    """0 where the fork failed."""


@record
class PreloadNext:
    """Request to the server: deferred imports may take CPU time from now on."""


ForkMessage: TypeAlias = PreloadDone | ForkRequest | Forked | PreloadNext

FORK_MESSAGES: Final[Codec[ForkMessage]] = Codec(
    {"preload-done": PreloadDone, "fork": ForkRequest, "forked": Forked, "preload-next": PreloadNext}
)
