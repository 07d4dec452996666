"""Breaks documents: values of other kinds and sizes in any place, and then the text itself. Seeded, and fast."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from random import Random
from typing import Any, Final

TEXTS: Final = (
    "", "a", "\x00", "\x1b[2J\x1b]0;x\x07", "\u202egnp\u2066", "\u200b\ufeff\u2060", "\ud800", "caf\udce9", "\n" * 50,
    "x" * 5000, "\U0001f600" * 2000, "%s%n{0}{x!r:>99999}", "../../etc/passwd", "9" * 5000, "NaN", "-inf", "null",
    '"}],[{"', "\\", "\u0660", "1e400", "zlib:AAAA", "GPU-1", "0", "-1", "\u3164", "\U000e0001", "\r\nX: y\r\n\r\n",
)  # fmt: skip
NUMBERS: Final = (
    0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 1.5, -0.0, 1e18, 1e308, -1e308, 1e-300,
    math.nan, math.inf, -math.inf, True, False, 65536, 99999, 5e-324,
)  # fmt: skip
_FRAGMENTS: Final = (
    "[" * 2000, "{" * 50, '{"a":' * 1500, "9" * 5000, "1e99999", "]", "}", '"', "\\", "\\ud800", "\\u202e", "null",
    "NaN", "-", ",", ":", "\x00", "\x1b", "\ufeff", "[[1,2,3]]", "{}", '"\\', " " * 3000,
)  # fmt: skip

_RANGES: Final = ((0, 31), (32, 126), (127, 160), (0x200B, 0x2069), (0xD800, 0xDFFF), (0xE000, 0xFFFF), (0, 0x10FFFF))


class Mutator:
    """Draws everything from one `Random`: the same seed gives the same inputs."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def value(self, depth: int = 0) -> Any:
        """A value of any kind."""
        match self.random.randrange(12 if depth < 4 else 8):
            case 0 | 1 | 2:
                return self.random.choice(TEXTS)
            case 3 | 4 | 5:
                return self.random.choice(NUMBERS)
            case 6:
                return None
            case 7:
                return self.random.randrange(-10, 10**6)
            case 8 | 9:
                return [self.value(depth + 1) for _ in range(self.random.choice((0, 1, 2, 3, 100)) if depth < 2 else 2)]
            case _:
                return {self.key(): self.value(depth + 1) for _ in range(self.random.choice((0, 1, 2, 3)))}

    def key(self) -> str:
        return str(self.random.choice((*TEXTS, "0", "1", "step", "results", "uuid", "metadata", "pods", "op")))

    def text(self) -> str:
        """A text, of one of ours or of any characters."""
        if self.random.random() < 0.5:
            return str(self.random.choice(TEXTS))
        return "".join(chr(self.random.randint(*self.random.choice(_RANGES))) for _ in range(self.random.randrange(40)))

    def changed(self, document: Any, times: int = 0) -> Any:
        """The document with something changed in one to three places."""
        found = copy.deepcopy(document)
        for _ in range(times or self.random.choice((1, 1, 1, 2, 3))):
            found = self._change_once(found)
        return found

    def _change_once(self, document: Any) -> Any:
        places = list(_places(document))
        if not places:
            return self.value()
        parent, key = self.random.choice(places)
        match self.random.randrange(8):
            case 0:
                del parent[key]
            case 1 if isinstance(parent, dict):
                parent[self.key()] = parent.pop(key)
            case 1 if isinstance(parent, list):
                parent.append(parent[key])
            case 2:
                parent[key] = [parent[key]]
            case 3:
                parent[key] = {self.key(): parent[key]}
            case 4 if isinstance(parent[key], str):
                parent[key] = self.spliced(parent[key])
            case _:
                parent[key] = self.value()
        return document

    def spliced(self, text: str) -> str:
        """The text with a piece lost, doubled or replaced."""
        at, to = sorted((self.random.randrange(len(text) + 1), self.random.randrange(len(text) + 1)))
        piece = self.random.choice(("", text[at:to] * 2, self.random.choice(_FRAGMENTS), self.text()))
        return text[:at] + piece + text[to if self.random.random() < 0.3 else at :]

    def json_of(self, document: Any) -> str:
        """The document as JSON, changed as a value, as a text, or both."""
        changed = self.changed(document) if self.random.random() < 0.85 else document
        text = json.dumps(changed, ensure_ascii=self.random.random() < 0.5)
        return self.spliced(text) if self.random.random() < 0.3 else text

    def bytes_of(self, text: str) -> bytes:
        """The text in UTF-8, or with some bytes that are none."""
        data = text.encode("utf-8", errors="surrogatepass")
        if data and self.random.random() < 0.1:
            at = self.random.randrange(len(data))
            data = data[:at] + self.random.randbytes(self.random.randrange(1, 8)) + data[at + 1 :]
        return data


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key or index) of every value."""
    if isinstance(document, dict):
        pairs = list(document.items())
    else:
        pairs = list(enumerate(document)) if isinstance(document, list) else []
    for key, value in pairs:
        yield document, key
        yield from _places(value)
