"""The moment of a decision, which notes what it is asked: until when all answers, and so the decision, stay the same.

Time comes into a decision by comparisons with instants ("has this job's protected time passed?"). Each of them is
noted. A decision that only compares is the same at every later moment before the earliest instant that was still to
come; one that reads `now` itself holds for this moment alone. So what depends on time in a way that nobody thought of
makes a decision short-lived, and never wrong.
"""

from __future__ import annotations

from math import inf


class Moment:
    __slots__ = ("_at", "until")

    def __init__(self, at: float) -> None:
        self._at = at
        self.until = inf
        """All answers given so far are the same at each moment from this one on and before then."""

    @property
    def now(self) -> float:
        """The moment as a number; whatever follows from it holds for this moment alone."""
        self.until = self._at
        return self._at

    @property
    def unnoted(self) -> float:
        """The moment as a number, for what cannot change a decision, or whose reader notes it where it does."""
        return self._at

    def has_come(self, at: float) -> bool:
        """That instant is now or past."""
        if at <= self._at:
            return True
        self.until = min(self.until, at)
        return False

    def is_past(self, at: float) -> bool:
        """That instant is past, and not now."""
        if at < self._at:
            return True
        self.until = min(self.until, at)
        return False

    def rounded_up(self, step_s: int) -> float:
        """The next whole multiple of `step_s`, for what needs a number and not an exact one."""
        at = float(-(-self._at // step_s) * step_s)
        self.until = min(self.until, at)
        return at

    def pin(self) -> None:
        """The decision depends on how much time has passed: it holds for this moment alone."""
        self.until = self._at
