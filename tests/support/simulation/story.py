"""What happened in a simulation, as lines: when, who, what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

LINES_MAX = 30


@dataclass(slots=True)
class Story:
    now: Callable[[], float]
    lines: list[str] = field(default_factory=list)

    def tell(self, text: str) -> None:
        self.lines.append(f"{self.now():9.3f}  {text}")

    def told(self, *subjects: str) -> str:
        """The last lines, those that name a subject first of all, with a line where some are left out."""
        if len(self.lines) <= LINES_MAX:
            return "\n".join(self.lines)
        numbered = list(enumerate(self.lines))
        named = [one for one in numbered if any(subject in one[1] for subject in subjects)][-(LINES_MAX * 2 // 3) :]
        room = LINES_MAX - 1 - len(named)
        rest = [one for one in numbered if one not in named][-room:]
        shown = sorted([*named, *rest])
        left_out = f"           … {len(self.lines) - len(shown)} lines are left out"
        return "\n".join([left_out, *(line for _, line in shown)])
