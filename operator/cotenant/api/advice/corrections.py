"""Corrections of a document in words: "write `spec.workers: 2`", in YAML that can be pasted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

Correction: TypeAlias = Mapping[str, Any]
"""Path of a field → its value. A path that begins with a dot is below the object with the wrong field."""

LONGEST = 400
"""Characters of a correction that is shown. An example says more than a longer one."""
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def written(correction: Correction) -> str:
    """ "write `spec.workers: 2` and `spec.minWorkers: 1`"; empty if it is too long to read."""
    try:
        text = " and ".join(f"`{path}: {flow(value)}`" for path, value in correction.items())
    except ValueError:  # an integer of thousands of digits, which Python does not write
        return ""
    return f"write {text}" if correction and len(text) <= LONGEST else ""


def flow(value: Any, *, inside: bool = False) -> str:
    """YAML on one line. Texts in lists, and texts that YAML would read as another type, are quoted."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_text(str(key))}: {flow(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(flow(inner, inside=True) for inner in value)}]"
    if isinstance(value, str):
        return _quoted(value) if inside else _text(value)
    return json.dumps(value)


def _text(value: str) -> str:
    return value if _PLAIN.fullmatch(value) and value.lower() not in _WORDS else _quoted(value)


def _quoted(value: str) -> str:
    """Text in double quotes. Unprintable characters are escaped as YAML does; JSON does so differently above U+FFFF."""
    return f'"{"".join(_escaped(letter) for letter in value)}"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"
