"""Foreign text as a terminal, a log and etcd can take it: valid UTF-8, printable, of bounded length.

What a reader would not see as it is (control characters, ESC, marks that turn the direction of writing, zero-width
characters, surrogates) is shown as Python writes it: `\\x1b`, `\\u202e`. Nothing is left out in silence.
"""

from __future__ import annotations

import re
from typing import Any, Final

_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that are printable by their category, and show nothing."""
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
CUT: Final = "…"


def plain_text(text: str, chars_max: int, *, lines: bool = False) -> str:
    """`text` with at most `chars_max` characters, all of them printable; the end of a line too where `lines`.

    A longer text ends in `…`. Spaces of any kind, and tabs, become spaces; so does the end of a line without `lines`.
    """
    cut = text[: chars_max + 1]
    cut = printable(cut, lines=lines)
    return cut if len(cut) <= chars_max else cut[: max(0, chars_max - 1)] + CUT[:chars_max]


def printable(text: str, *, lines: bool = False) -> str:
    """The whole text, so shown; the end of a line too stays where `lines`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(char, lines) for char in text)


def _shown(char: str, lines: bool) -> str:
    if char == "\n":
        return char if lines else " "
    if char.isspace() and char not in "\x0b\x0c\x1c\x1d\x1e\x1f\x85":
        return " "
    if char.isprintable() and not _INVISIBLE.match(char):
        return char
    return char.encode("unicode_escape").decode("ascii")


def is_word(text: str, chars_max: int) -> bool:
    """A word such as `training` or `OutOfMemory`: what may be a reason, a state or a label."""
    return len(text) <= chars_max and _WORD.fullmatch(text) is not None


def is_printable_ascii(text: str, chars_max: int) -> bool:
    """An identifier such as a UUID: no spaces, not empty."""
    return 0 < len(text) <= chars_max and text.isascii() and text.isprintable() and " " not in text


def shown_value(value: Any) -> str:
    """A value out of a document, short and plain enough for a sentence."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int):
        return f"an integer of {value.bit_length()} bits" if value.bit_length() > 64 else str(value)
    if isinstance(value, str):
        return f'"{plain_text(value, 40)}"'
    return plain_text(str(value), 40) if isinstance(value, float) else type(value).__name__
