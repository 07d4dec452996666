"""A log of lines in a folder, bounded in size: when a file is full, it is rotated, and the oldest file is removed.

Lines are appended to `runs.jsonl`; `runs.jsonl.1` is the file before it. The file is opened for each batch, because
another replica on the same volume may have written in between. One write has whole lines only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class RotatedFiles:
    folder: Path
    name: str
    bytes_max: int
    """Of all parts together."""

    def append(self, lines: Sequence[str]) -> None:
        """Append the lines. Raises OSError if the volume refuses them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for batch in _batches(lines, self._part_bytes):
            self._make_room(len(batch))
            with self._part(0).open("ab") as file:
                if _is_torn(self._part(0)):
                    file.write(b"\n")
                file.write(batch)

    def lines(self) -> Iterator[str]:
        """All lines, oldest first. A line that was cut off is returned as it is. Raises OSError."""
        for number in reversed(range(PARTS)):
            if self._part(number).exists():
                with self._part(number).open(encoding="utf-8", errors="replace") as file:
                    yield from (line.rstrip("\n") for line in file)

    @property
    def _part_bytes(self) -> int:
        return max(1, self.bytes_max // PARTS)

    def _part(self, number: int) -> Path:
        return self.folder / (f"{self.name}.{number}" if number else self.name)

    def _make_room(self, needed: int) -> None:
        try:
            size = self._part(0).stat().st_size
        except FileNotFoundError:
            return
        if size + needed + 1 <= self._part_bytes:
            return
        for number in reversed(range(PARTS - 1)):
            if self._part(number).exists():
                os.replace(self._part(number), self._part(number + 1))


def _batches(lines: Iterable[str], longest: int) -> Iterator[bytes]:
    """Batches of whole lines, each of at most the size of a file. A line that is longer than a file is left out."""
    batch = b""
    for line in lines:
        data = line.encode() + b"\n"
        if len(data) >= longest:
            continue
        if len(batch) + len(data) >= longest:
            yield batch
            batch = b""
        batch += data
    if batch:
        yield batch


def _is_torn(part: Path) -> bool:
    """True if its last line has no end, because its writer was killed."""
    with part.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
