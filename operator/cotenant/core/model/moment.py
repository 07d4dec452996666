"""The moment of a decision. It notes comparisons, so that a decision can be reused: a cycle takes 2 ms instead of 630.

Time comes into a decision by comparisons with instants ("has this job's protected time passed?"). Each of them is
noted. A decision that only compares is the same at every later moment before the earliest instant that was still to
come; one that reads the time itself (`Moment.read`) holds for this moment alone. So what depends on time in a way that
nobody thought of makes a decision short-lived, and never wrong.
"""

from __future__ import annotations

from math import inf
from typing import Final

import numpy as np
import numpy.typing as npt

_PARTS: Final = 16
"""Something of some age is looked at so many times, at least, before its age has doubled."""


class Moment:
    __slots__ = ("at", "until")

    def __init__(self, at: float) -> None:
        self.at = at
        """The moment as a number. Only for readers that cannot change a decision, or that note what they compare."""
        self.until = inf
        """Every answer given so far stays the same until then."""

    def read(self) -> float:
        """The moment as a number. A decision that reads it holds for this moment alone."""
        self.pin()
        return self.at

    def has_come(self, at: float) -> bool:
        """True if the instant is now or past."""
        if at <= self.at:
            return True
        self.until = min(self.until, at)
        return False

    def have_come(self, instants: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """`has_come` of each."""
        come: npt.NDArray[np.bool_] = instants <= self.at
        self.until = min(self.until, float(instants[~come].min(initial=inf)))
        return come

    def is_past(self, at: float) -> bool:
        """True if the instant is past, and not now."""
        if at < self.at:
            return True
        self.until = min(self.until, at)
        return False

    def rounded_up_by_age(self, since: npt.NDArray[np.float64], step_s: int) -> npt.NDArray[np.float64]:
        """[J] the moment, rounded up in steps that grow with the age of each item; `since`: when each began.

        A step is `step_s`, doubled while it is at most a sixteenth of the age. Example: 60 s up to an age of 32
        minutes, an hour at 16 hours.
        """
        doublings = np.frexp(np.maximum((self.at - since) // (_PARTS * step_s), 1.0))[1] - 1
        steps = np.ldexp(float(step_s), doublings)
        rounded: npt.NDArray[np.float64] = -np.floor_divide(-self.at, steps) * steps
        grows = since + 2 * _PARTS * steps
        self.until = min(self.until, float(rounded.min(initial=inf)), float(grows.min(initial=inf)))
        return rounded

    def pin(self) -> None:
        """Note that the decision depends on how much time has passed: it holds for this moment alone."""
        self.until = self.at
