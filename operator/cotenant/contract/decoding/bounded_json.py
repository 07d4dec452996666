"""JSON of a foreign process as a value, or the sentence that says why not. Its cost is bounded before it is parsed.

Depth, values and digits are counted first, so that the parser never nests further than `Bounds` allow and never
converts a number of thousands of digits, which takes quadratic time.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from cotenant.contract.decoding.plain_text import plain_text

_REASON_CHARS_MAX = 200
_TEXT: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?P<end>"?)', re.DOTALL)
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b"[]{},:"))
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


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
    """Keys, values and brackets, all together, by what separates them."""
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
    """Counts alone, in C: a document of a megabyte takes milliseconds."""
    outside = _outside_texts(text)
    if outside is None:
        return Malformed("is not JSON: a text in it does not end")
    if len(outside.translate(None, _NOT_STRUCTURE)) > bounds.values_max:
        return Malformed(f"holds more than {bounds.values_max} values")
    brackets = outside.translate(None, _NOT_BRACKETS)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > bounds.depth_max:
        return Malformed(f"nests more than {bounds.depth_max} deep")
    if re.search(rb"[0-9.eE+-]{%d}" % (bounds.digits_max + 1), outside):
        return Malformed(f"holds a number of more than {bounds.digits_max} digits")
    return None


def _outside_texts(text: str) -> bytes | None:
    """What stands outside of the texts; None where the last one does not end."""
    if "\\" not in text:
        parts = text.split('"')
        return " ".join(parts[::2]).encode("utf-8", errors="replace") if len(parts) % 2 else None
    torn = False

    def blank(found: re.Match[str]) -> str:
        nonlocal torn
        torn = torn or not found["end"]
        return " "

    outside = _TEXT.sub(blank, text)
    return None if torn else outside.encode("utf-8", errors="replace")


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
