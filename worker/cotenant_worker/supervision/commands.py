"""Commands of the supervisor, which the conductor executes."""

from __future__ import annotations

from typing import TypeAlias

from cotenant_worker.messaging.records import record
from cotenant_worker.supervision.worker_group import RankAssignment


@record
class Start:
    """Begin a generation with these ranks."""

    generation: int
    ranks: tuple[RankAssignment, ...]
    restart_count: int
    why: str = ""


@record
class KillRanks:
    """SIGKILL what is left of generations up to this one. Its state is not needed."""

    generation: int


@record
class Resize:
    """All ranks save and leave, because the group changes its size."""


@record
class Finish:
    """The attempt is over in all pods, with this verdict."""

    code: int
    reason: str
    message: str
    rank: int | None = None
    signal: int | None = None
    tail: tuple[str, ...] = ()
    pod: int | None = None
    """Pod of `rank`, by node rank."""


Command: TypeAlias = Start | KillRanks | Resize | Finish
