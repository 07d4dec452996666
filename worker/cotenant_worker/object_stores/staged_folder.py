"""The folder of staged data: complete files, and a journal of the objects that they come from.

A file is written under a name that starts with a dot, and gets its own name when it is complete. Then the journal gets
a line for it. So an attempt that finds the folder again (on a volume) fetches only what is missing or has changed in
the store. One pod at a time writes; other pods that share the volume wait, and find all files.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from cotenant_worker.object_stores.object_store import StoredObject
from cotenant_worker.object_stores.staging_errors import StagingError

OWN: Final = ".cotenant-"
"""Prefix of our own files."""
JOURNAL: Final = f"{OWN}staged.jsonl"
_PART: Final = f"{OWN}part-"
_LOCK: Final = f"{OWN}lock"
_NAME_BYTES_MAX: Final = 255
_PATH_BYTES_MAX: Final = 2048


def checked_name(path: str) -> str:
    """The path of an object as a path below the folder. Raises StagingError if it would lie outside."""
    parts = PurePosixPath(path).parts
    whole = "/".join(parts) == path and bool(parts)
    inside = whole and ".." not in parts and not path.startswith("/") and "\\" not in path
    printable = not any(ord(char) < 32 or ord(char) == 127 for char in path)
    short = len(os.fsencode(path)) <= _PATH_BYTES_MAX and all(
        len(os.fsencode(part)) <= _NAME_BYTES_MAX for part in parts
    )
    if not (inside and printable and short) or parts[0].startswith(OWN):
        raise StagingError(
            "DataNameRefused", f"the object {path[:200]!r} has a name that no file in the folder can have"
        )
    return path


class StagedFolder:
    """One `to`. `source` is the address that its files come from."""

    def __init__(self, path: Path, source: str) -> None:
        self.path = path
        self.source = source
        self._known: dict[str, tuple[int, str]] = {}

    @contextlib.contextmanager
    def locked(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Make the folder and lock it for writing; `waiting` is called if another pod has the lock. Raises OSError of
        the disk.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / _LOCK).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(lock, fcntl.LOCK_EX)
            except OSError:
                pass  # a file system without locks: two writers fetch twice, and both put whole files in place
            else:
                for left in self.path.glob(f"{_PART}*"):
                    left.unlink(missing_ok=True)
            self._known = dict(_read_journal(self.path / JOURNAL, self.source))
            yield

    def has(self, name: str, item: StoredObject) -> bool:
        """True if the file has this content: the same size, fetched under the same ETag."""
        if self._known.get(name) != (item.size, item.etag):
            return False
        try:
            return (self.path / name).stat().st_size == item.size
        except OSError:
            return False

    def write(self, name: str, item: StoredObject, chunks: Iterable[Any]) -> None:
        """Put the file in place once all of it is on the disk. Raises OSError of the disk, and StagingError if the data
        are too short.
        """
        aside, final = self.path / f"{_PART}{uuid.uuid4().hex}", self.path / name
        try:
            with aside.open("xb") as file:
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
                written = file.tell()
            if written != item.size:
                short = f"{self.source}: {name} has {written} bytes, and its store had said {item.size}"
                raise StagingError("DataChanged", short, retriable=True)
            final.parent.mkdir(parents=True, exist_ok=True)
            aside.replace(final)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        line = json.dumps({"from": self.source, "name": name, "size": item.size, "etag": item.etag})
        with (self.path / JOURNAL).open("a") as journal:
            journal.write(f"{line}\n")

    def free_bytes(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize


def _read_journal(path: Path, source: str) -> Iterator[tuple[str, tuple[int, str]]]:
    """(name, (size, ETag)) of each file that came from `source`, newest last. A line that was cut off is ignored."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            found = json.loads(line)
            entry = (str(found["name"]), (int(found["size"]), str(found["etag"])))
            same = found["from"] == source
        except (ValueError, KeyError, TypeError):
            continue
        yield entry if same else (entry[0], (-1, ""))  # another address has put its own in its place since
