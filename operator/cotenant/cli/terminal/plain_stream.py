"""Escapes control characters in everything that verbs print, so that a tenant's text cannot control a terminal.

`cotenant.cli.main` puts it before stdout and stderr, so no verb has to think of it. The program's own control sequences
are `sealed` with a random word that is new in each run. All others are shown as Python writes them.
"""

from __future__ import annotations

import contextlib
import io
import re
import secrets
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, TextIO, cast

from cotenant.contract.decoding.plain_text import printable

_SEAL: Final = f"\x1b{secrets.token_hex(16)}"
_SEALED: Final = re.compile(re.escape(_SEAL) + r"(\[[0-9;]*[A-Za-z])")
_KEPT: Final = re.compile(r"([\n\t])")


def sealed(sequence: str) -> str:
    """A control sequence of the program's own, marked so that it passes."""
    return _SEAL + sequence


def unsealed(text: str) -> str:
    """The text without such sequences: what a person sees."""
    return _SEALED.sub("", text)


class PlainStream:
    """A text stream that escapes unprintable characters. Line ends and tabs stay."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write("".join(_plain_parts(text)))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _plain_parts(text: str) -> Iterator[str]:
    for number, part in enumerate(_SEALED.split(text)):
        if number % 2:
            yield f"\x1b{part}"
        else:
            yield from (one if one in {"\n", "\t"} else printable(one) for one in _KEPT.split(part))


class PlainBytes:
    """Bytes of programs on their way to a terminal: written as text of stdout."""

    def write(self, data: bytes) -> int:
        sys.stdout.write(data.decode(errors="replace"))
        return len(data)

    def flush(self) -> None:
        sys.stdout.flush()


def byte_output() -> BinaryIO:
    """Stdout for what programs print: plain on a terminal, unchanged elsewhere."""
    return cast("BinaryIO", PlainBytes()) if sys.stdout.isatty() else sys.stdout.buffer


@contextlib.contextmanager
def plain_output() -> Iterator[None]:
    """Make stdout and stderr plain inside this context. A character that stdout cannot encode becomes a `?`."""
    before = sys.stdout, sys.stderr
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.stdout, sys.stderr = (cast("TextIO", PlainStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
