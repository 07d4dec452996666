"""Commands of the supervisor, which the conductor carries out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cotenant_worker.supervision.worker_group import RankAssignment


@dataclass(frozen=True, slots=True)
class Start:
    """Begin a generation with these ranks."""

    generation: int
    ranks: tuple[RankAssignment, ...]
    restart_count: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Kill what is left of a generation; its state is of no use."""

    generation: int


@dataclass(frozen=True, slots=True)
class Save:
    """Ask the ranks to save and leave: the group changes its size."""

    generation: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The attempt is over, everywhere, with this verdict."""

    code: int
    reason: str
    message: str
    rank: int | None = None
    signal: int | None = None
    tail: tuple[str, ...] = ()
    pod: int | None = None
    """Of `rank`, by node rank."""


Command: TypeAlias = Start | Stop | Save | Finish
