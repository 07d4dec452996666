"""What verbs print, made plain on its way out: no text of a tenant's in any answer reaches a terminal as control.

`cotenant.cli.main` puts it before stdout and stderr, so that no verb has to think of it. The program's own sequences
are `sealed` with a word that is new in each run and that nobody else knows; all others are shown as Python writes them.
"""

from __future__ import annotations

import contextlib
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
    """A control sequence of the program's own, such as `[31m`, as it has to be written to pass."""
    return _SEAL + sequence


def unsealed(text: str) -> str:
    """The text without such sequences: as wide as it is seen."""
    return _SEALED.sub("", text)


class PlainStream:
    """A text stream that escapes what is not printable; ends of lines and tabs stay."""

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
    """Bytes of programs on their way to a terminal: as text of stdout."""

    def write(self, data: bytes) -> int:
        sys.stdout.write(data.decode(errors="replace"))
        return len(data)

    def flush(self) -> None:
        sys.stdout.flush()


def byte_output() -> BinaryIO:
    """Stdout for what programs print: plain on a terminal, to the byte elsewhere."""
    return cast("BinaryIO", PlainBytes()) if sys.stdout.isatty() else sys.stdout.buffer


@contextlib.contextmanager
def plain_output() -> Iterator[None]:
    """Make stdout and stderr plain for as long as it lasts."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", PlainStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
