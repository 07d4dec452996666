"""What is wrong with a document, and the one error that a refused document raises. The one-file plugin
needs it: no package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.contract.decoding.plain_text import plain_text

PROBLEM_CHARS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Problem:
    field: str
    """As in the document: `spec.gpu.memoryFraction`, `spec.runtime.env[2].name`."""
    message: str
    line: int = 0
    """Of the text, counted from 1, where it is the text itself that cannot be read."""

    def __str__(self) -> str:
        """Plain text: both quote what somebody wrote."""
        place = f"line {self.line}" if self.line else self.field
        return plain_text(f"{place}: {self.message}" if place else self.message, PROBLEM_CHARS_MAX)


class DocumentError(ValueError):
    """Refusal of a document; `problems` has all that was found, one per field."""

    def __init__(self, problems: Sequence[Problem], where: str = "") -> None:
        self.problems = tuple(problems)
        self.where = where
        text = "; ".join(str(problem) for problem in self.problems)
        super().__init__(f"{where}: {text}" if where else text)
