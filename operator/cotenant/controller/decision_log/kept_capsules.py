"""Capsules in a folder of the decision log's volume: one file each, within a limit of bytes. The oldest are removed
first.

The name of a file carries what is known of the capsule without reading it. A file appears whole or not at all. A
replica that leads later continues in the same folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SUFFIX: Final = ".capsule"
_NAME: Final = re.compile(r"(\d{1,20})-(\d{1,9})-(\w{1,128})\.capsule", re.ASCII)
"""Microseconds of the decision, evictions, digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCapsule:
    digest: str
    """Of its inputs, as the record of the decision has it."""
    at: float
    """Unix seconds of the decision."""
    evictions: int
    packed: bytes


@dataclass(frozen=True, slots=True)
class CapsuleFiles:
    folder: Path
    bytes_max: int
    """Of all of them together."""

    def write(self, capsule: KeptCapsule) -> None:
        """Raises OSError if the volume refuses it."""
        size = len(capsule.packed)
        if size > self.bytes_max:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_room(size)
        path = self.folder / f"{round(capsule.at * 1e6)}-{capsule.evictions}-{capsule.digest}{SUFFIX}"
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            file.write(capsule.packed)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)

    def read(self) -> Iterator[KeptCapsule]:
        """All capsules, oldest first, after removing those beyond the limit. Raises OSError."""
        if not self.folder.is_dir():
            return
        for unfinished in self.folder.glob("*.unfinished"):  # whoever wrote it was killed
            unfinished.unlink(missing_ok=True)
        self._make_room(0)
        for path, match in self._files():
            at, evictions, digest = match.groups()
            yield KeptCapsule(digest=digest, at=int(at) / 1e6, evictions=int(evictions), packed=path.read_bytes())

    def _make_room(self, needed: int) -> None:
        sizes = [(path, path.stat().st_size) for path, _ in self._files()]
        held = needed + sum(size for _, size in sizes)
        for path, size in sizes:
            if held <= self.bytes_max:
                return
            path.unlink(missing_ok=True)
            held -= size

    def _files(self) -> list[tuple[Path, re.Match[str]]]:
        """Our files, oldest first. Files with other names are not ours."""
        found = ((path, _NAME.fullmatch(path.name)) for path in self.folder.iterdir())
        return sorted(((path, match) for path, match in found if match), key=lambda one: (int(one[1][1]), one[0].name))
