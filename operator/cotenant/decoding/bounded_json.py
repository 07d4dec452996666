"""JSON of a foreign process as a value, or the sentence that says why not. Its cost is bounded before it is parsed.

One pass over the text counts depth, values and digits, so that the parser never nests further than `Bounds` allow and
never converts a number of thousands of digits, which takes quadratic time.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import dataclass
from typing import Any, Final

from cotenant.decoding.plain_text import plain_text

_REASON_CHARS_MAX = 200
_TOKEN: Final = re.compile(
    r"""
    "[^"\\]*+(?:\\.[^"\\]*+)*+"         # a text
    | (?P<open>[\[{]) | (?P<close>[\]}])
    | (?P<digits>[0-9][0-9.eE+-]*+)
    | (?P<torn>")                         # a text that does not end
    | [a-zA-Z]++                          # true, null, NaN
    """,
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Malformed:
    """A document that did not pass. `reason` is one plain, short sentence without its subject."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a document may cost at most."""

    bytes_max: int
    """Of its text, in UTF-8."""
    depth_max: int
    """Objects and lists within each other."""
    values_max: int
    """Keys, values and brackets, all together."""
    digits_max: int = 32
    """Characters of one number."""


def parse(data: bytes | str, bounds: Bounds) -> Any | Malformed:
    """The value that the JSON is; text that is not UTF-8 has `\\ufffd` in those places. NaN and infinity are floats."""
    if len(data) > bounds.bytes_max:
        return Malformed(f"is longer than {bounds.bytes_max} bytes")
    text = data.decode("utf-8", errors="replace") if isinstance(data, bytes) else data
    if (excess := _excess(text, bounds)) is not None:
        return excess
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return Malformed(f"is not JSON: {plain_text(str(error), _REASON_CHARS_MAX)}")


def _excess(text: str, bounds: Bounds) -> Malformed | None:
    depth = 0
    for values, token in enumerate(_TOKEN.finditer(text), 1):
        if values > bounds.values_max:
            return Malformed(f"holds more than {bounds.values_max} values")
        match token.lastgroup:
            case "open":
                depth += 1
                if depth > bounds.depth_max:
                    return Malformed(f"nests more than {bounds.depth_max} deep")
            case "close":
                depth -= 1
            case "digits" if token.end() - token.start() > bounds.digits_max:
                return Malformed(f"holds a number of more than {bounds.digits_max} digits")
            case "torn":
                return Malformed("is not JSON: a text in it does not end")
    return None


def unpack(text: str, bytes_max: int) -> str | Malformed:
    """Text out of base64 of zlib's compression; never more than `bytes_max` of it is unpacked."""
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(base64.b64decode(text, validate=True), bytes_max + 1)
        if len(data) > bytes_max:
            return Malformed(f"unpacks to more than {bytes_max} bytes")
        return data.decode() if inflate.eof else Malformed("ends too early")
    except (ValueError, zlib.error) as error:
        return Malformed(plain_text(str(error), _REASON_CHARS_MAX))
