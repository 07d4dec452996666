"""An instant by which a job is to have ended, told as the time that is left until then.

Which jobs the instant helps does not depend on the moment; how it is told does, and is told anew without that anything
else is decided anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.core.model.moment import Moment


@dataclass(frozen=True, slots=True)
class Deadline:
    at: float
    seconds: int
    """That are left, as they are told."""

    @classmethod
    def told(cls, at: float, moment: Moment) -> Deadline:
        """Deadline as it is told at this moment, which notes until when."""
        return cls(at, time_left(at, moment))


def time_left(until: float, moment: Moment) -> int:
    """Whole seconds, of a minute and more tens of them, of ten minutes and more minutes, which double as long as they
    are no more than an eighth of the time; rounded down: who is advised has some time to follow, and the advice is not
    another one each second."""
    left = max(0, int(until - moment.at))
    unit = 60 << max(0, (left // 480).bit_length() - 1) if left >= 600 else 10 if left >= 60 else 1
    rounded = left - left % unit
    moment.is_past(until - rounded)
    return rounded
