"""The known name that is nearest to a mistyped one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

LONGEST = 64
"""Longer words are not compared: no name is as long, and the cost grows with the square of the length."""
_NEAR = 0.72


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The same word in capitals, with underscores or in the plural; otherwise one that differs by a letter or two."""
    if len(word) > LONGEST:
        return None
    spelled = {_plain(name): name for name in sorted(known, reverse=True)}
    plain = _plain(word)
    for form in (plain, f"{plain}s", plain.removesuffix("s"), f"{plain}name"):
        if form in spelled:
            return spelled[form]
    found = difflib.get_close_matches(plain, spelled, n=1, cutoff=_NEAR)
    return spelled[found[0]] if found else None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
