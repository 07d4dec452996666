"""An instant by which a job should have ended, worded as the time that is left until then.

The words change while time passes, and are renewed without a new decision: which jobs the instant helps does not depend
on the moment.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.core.model.moment import Moment


@dataclass(frozen=True, slots=True)
class Deadline:
    at: float
    seconds: int
    """Time that is left, rounded as it is worded."""

    @classmethod
    def told(cls, at: float, moment: Moment) -> Deadline:
        """The deadline as worded at this moment. The moment notes until when the words stay the same.

        The time that is left is rounded down, so that the advice does not change every second: below a minute in steps
        of 1 s, below ten minutes of 10 s, then of a minute, doubled while a step is at most an eighth of the time.
        """
        left = max(0, int(at - moment.at))
        unit = 60 << max(0, (left // 480).bit_length() - 1) if left >= 600 else 10 if left >= 60 else 1
        rounded = left - left % unit
        moment.is_past(at - rounded)
        return cls(at, rounded)
