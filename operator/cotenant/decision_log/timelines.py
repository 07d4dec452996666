"""What happened to each job between its submission and its end: why it waited, where it ran, who took its place.

Bounded: the first and the newest lines of a job are kept, and only so many jobs. The job that has been quiet for the
longest is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from cotenant.api.scalars.status_fields import cut

OF_ONE_MAX: Final = 48
FIRST_KEPT: Final = 8
TOGETHER_MAX: Final = 50_000
MESSAGE_CHARS_MAX: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    at: float
    """Unix seconds."""
    what: str
    """`Waits`, `Admitted`, `Resized`, `Evicted`, or a phase."""
    reason: str = ""
    message: str = ""
    mentions: tuple[str, ...] = ()
    """Namespaces of jobs that the message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    happenings: tuple[Happening, ...] = ()
    left_out: int = 0
    """Number of lines in between that were dropped."""
    gpu_class: str = ""
    """Class of the GPUs that it held last."""


NOTHING_HAPPENED: Final = Timeline()


class Timelines:
    """Timelines by uid of the job."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, Timeline] = OrderedDict()
        self._together = 0

    def __getitem__(self, uid: str) -> Timeline:
        return self._of.get(uid, NOTHING_HAPPENED)

    def note(self, uid: str, happening: Happening, *, gpu_class: str = "") -> None:
        """Add a line to a job's timeline. A repetition of its last line is left out."""
        before = self._of.pop(uid, NOTHING_HAPPENED)
        self._together -= len(before.happenings)
        after = _with(before, replace(happening, message=cut(happening.message, MESSAGE_CHARS_MAX)))
        self._put(uid, replace(after, gpu_class=gpu_class or before.gpu_class))

    def pop(self, uid: str) -> Timeline:
        found = self._of.pop(uid, NOTHING_HAPPENED)
        self._together -= len(found.happenings)
        return found

    def clear(self) -> None:
        self._of.clear()
        self._together = 0

    def _put(self, uid: str, timeline: Timeline) -> None:
        self._of[uid] = timeline
        self._together += len(timeline.happenings)
        while self._together > TOGETHER_MAX:
            _, quiet = self._of.popitem(last=False)
            self._together -= len(quiet.happenings)


def _with(before: Timeline, happening: Happening) -> Timeline:
    known = before.happenings
    if known and (known[-1].what, known[-1].reason) == (happening.what, happening.reason):
        return before
    if len(known) < OF_ONE_MAX:
        return replace(before, happenings=(*known, happening))
    kept = (*known[:FIRST_KEPT], *known[FIRST_KEPT + 1 :], happening)
    return replace(before, happenings=kept, left_out=before.left_out + 1)
