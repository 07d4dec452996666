"""Text of any origin as a status may hold it: plain, and bounded. Pure."""

from __future__ import annotations

from typing import Final

from cotenant.contract.decoding.plain_text import plain_text

MESSAGE_CHARS_MAX: Final = 4000
"""Short enough for six conditions to repeat it."""
REASON_CHARS_MAX: Final = 128
"""The longest reason of an Event of Kubernetes."""


def plain_sentence(text: str) -> str:
    """A message of any origin. Its line breaks stay."""
    return plain_text(text, MESSAGE_CHARS_MAX, lines=True)


def plain_word(text: str) -> str:
    """A reason or a kind."""
    return plain_text(text, REASON_CHARS_MAX)
