"""A capsule as a file: its document, compressed. It imports nothing that decides, so the one-file plugin can
save one.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from cotenant.decision_log.codec import CodecError

FORMAT: Final = "cotenant.dev/decision-capsule"
VERSION: Final = 1
BYTES_MAX: Final = 1 << 30
"""Size of an uncompressed capsule."""


def checked(document: Any) -> dict[str, Any]:
    """The document of a capsule, if its version is known. Raises CodecError."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CodecError(f"this is no decision capsule: it does not say format: {FORMAT}")
    if document.get("version") != VERSION:
        raise CodecError(f"a capsule of version {document.get('version')}; this program reads {VERSION}")
    return document


def packed(document: Mapping[str, Any]) -> bytes:
    """Equal documents give equal bytes."""
    text = json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return gzip.compress(text.encode(), mtime=0)


def unpacked(data: bytes) -> bytes:
    """Text of a file, compressed or not. Raises ValueError and OSError."""
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        text = gzip.GzipFile(fileobj=io.BytesIO(data)).read(BYTES_MAX + 1)
    except (zlib.error, EOFError) as error:
        raise ValueError(f"it is damaged: {error}") from None
    if len(text) > BYTES_MAX:
        raise ValueError(f"it is longer than {BYTES_MAX} bytes")
    return text
