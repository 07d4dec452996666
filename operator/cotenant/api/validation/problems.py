"""What is wrong with a document, and the one error that a refused document raises.

It imports no package, because the one-file plugin needs it.
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
    """Line of the text, from 1, if the text itself cannot be read."""

    def __str__(self) -> str:
        """Plain text: both quote what somebody wrote."""
        place = f"line {self.line}" if self.line else self.field
        return plain_text(f"{place}: {self.message}" if place else self.message, PROBLEM_CHARS_MAX)


class DocumentError(ValueError):
    """A document is refused. `problems` has everything that was found, one for each field."""

    def __init__(self, problems: Sequence[Problem], where: str = "") -> None:
        self.problems = tuple(problems)
        self.where = where
        self.text = "; ".join(str(problem) for problem in self.problems)
        """All of them in one line, without where the document is from."""
        super().__init__(f"{where}: {self.text}" if where else self.text)
