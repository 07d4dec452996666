"""Lines of a program's output: as text for a verdict, and with a rank's number in front for the pod's log. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_UNENDED_BYTES: Final = 1 << 16
"""Bytes that are kept of a line without an end, such as a progress bar."""
UNENDED_S: Final = 5.0
"""A line of several ranks that has not ended by then is shown as it stands."""
_ESCAPES: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
"""What a terminal takes for colors and movements, not for text."""


def as_text(line: bytes) -> str:
    """The line as one reads it: the final state of one that was drawn repeatedly, without colors and without
    characters that cannot be printed.

    A line with a single carriage return inside is text (such as an error that quotes a file of Windows), and is kept
    whole.
    """
    drawn = [part for part in _ESCAPES.sub(b"", line).split(b"\r") if part.strip()]
    text = (rb"\r".join(drawn) if len(drawn) <= 2 else drawn[-1]).decode(errors="replace")
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\t" else " " for c in text)


@dataclass(slots=True)
class PrefixedLines:
    """Whole lines with a prefix, of what comes in pieces: so lines of two ranks do not mix.

    A progress bar does not end its line for hours, and a program may stop in the middle of one: after `UNENDED_S`,
    what is there is shown as a line of its own, and what follows begins another.
    """

    prefix: bytes
    _held: bytes = b""
    """The line that has not ended."""
    _since: float = 0.0
    """When it began."""
    _cut: bool = False
    """True if its beginning was shown."""

    def timeout_s(self, now: float) -> float | None:
        """Seconds until the line that has not ended is due; None if there is none."""
        return max(0.0, self._since + UNENDED_S - now) if self._held else None

    def add(self, data: bytes, now: float) -> bytes:
        """What is to be written after `data` has come. Without data: what is due."""
        if not self._held:
            self._since = now
        *lines, rest = (self._held + data).split(b"\n")
        if lines:
            if self._cut and not lines[0].strip():
                lines.pop(0)  # the rest of a line that was shown
            self._since, self._cut = now, False
        self._held = rest
        if len(rest) > MAX_UNENDED_BYTES or (rest and now >= self._since + UNENDED_S):
            lines += _newest_state(rest)
            self._held, self._cut = b"", True
        return b"".join(self.prefix + line + b"\n" for line in lines)

    def end(self) -> bytes:
        """What is left at the end."""
        held, self._held = self._held, b""
        return self.prefix + held + b"\n" if held else b""


def _newest_state(line: bytes) -> list[bytes]:
    """What a terminal would show of a line that is drawn repeatedly."""
    return [part for part in line.split(b"\r") if part.strip()][-1:]
