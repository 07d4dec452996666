"""The newest records, kept as lines within a limit of bytes, for questions. The oldest are dropped first.

If there is a volume, the lines are also written there, and read back when this replica begins to lead. If the volume
fails, what could not be written is lost, with a warning; questions are still answered from memory.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cotenant.controller.decision_log.rotated_files import RotatedFiles
from cotenant.decision_log.cycles import CycleRecord
from cotenant.decision_log.lines import Reader, Record, from_line, to_line
from cotenant.decision_log.runs import RunRecord
from cotenant.decision_log.showback.charges import UsageCharge

log = logging.getLogger(__name__)

RUNS_BYTES: Final = 32 << 20
CYCLES_BYTES: Final = 16 << 20
CHARGES_BYTES: Final = 64 << 20


FILES: Final = ("runs", "cycles", "charges")
PARTS: Final = len(FILES) + 1
"""Equal parts of the volume: a file each, and capsules."""


@dataclass(slots=True)
class Ring:
    """Lines with the keys that they are found by. Thread-safe."""

    bytes_max: int
    _lines: deque[tuple[tuple[str, ...], str]] = field(default_factory=deque)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def append(self, key: tuple[str, ...], line: str) -> None:
        with self._lock:
            self._lines.append((key, line))
            self._bytes += len(line)
            while self._bytes > self.bytes_max and len(self._lines) > 1:
                self._bytes -= len(self._lines.popleft()[1])

    def newest(self, most: int, prefix: tuple[str, ...] = ()) -> list[str]:
        """Lines whose keys begin with this, newest first. Of several lines with one key, only the newest."""
        with self._lock:
            lines = list(self._lines)
        found: dict[tuple[str, ...], str] = {}
        for key, line in reversed(lines):
            if len(found) == most:
                break
            if key[: len(prefix)] == prefix:
                found.setdefault(key, line)
        return list(found.values())

    def all(self, prefix: tuple[str, ...] = ()) -> list[str]:
        """Lines whose keys begin with this, oldest first."""
        with self._lock:
            return [line for key, line in self._lines if key[: len(prefix)] == prefix]

    def clear(self) -> None:
        with self._lock:
            self._lines.clear()
            self._bytes = 0


class Archive:
    def __init__(self, folder: str = "", megabytes: int = 0) -> None:
        """`folder`: on a volume, or empty. `megabytes`: the limit of all files together, and again of the capsules
        beside them.
        """
        self._runs, self._cycles, self._charges = Ring(RUNS_BYTES), Ring(CYCLES_BYTES), Ring(CHARGES_BYTES)
        self._charged = 0
        self._uids: set[str] = set()
        """Of recorded runs, until `forget`: after that the job can have no further end."""
        part = (megabytes << 20) // PARTS
        self._files = {name: RotatedFiles(Path(folder), f"{name}.jsonl", part) for name in FILES} if folder else {}
        self.failed = 0
        """Batches that the volume did not take."""

    def load(self) -> None:
        """Replace what is known by what is on the volume, because another replica may have led."""
        if not self._files:
            return
        reader = Reader()
        self._runs.clear()
        self._cycles.clear()
        self._charges.clear()
        self._uids.clear()
        for name, files in self._files.items():
            try:
                for record in reader.records(files.lines()):
                    self._keep(record, to_line(record))
            except OSError as error:
                log.warning("the decision log in %s is not read: %s: %s", files.folder, name, error)
        if reader.skipped:
            log.warning("the decision log has %d lines that cannot be read", reader.skipped)

    def knows(self, uid: str) -> bool:
        """True if the end of this run is recorded."""
        return uid in self._uids

    def forget(self, uid: str) -> None:
        """Forget that the end of this run is recorded: its job was deleted long ago. Its record stays."""
        self._uids.discard(uid)

    def add(self, records: Sequence[Record]) -> None:
        lines: dict[str, list[str]] = {name: [] for name in FILES}
        for record in records:
            line = to_line(record)
            lines[_file_of(record)].append(line)
            self._keep(record, line)
        for name, files in self._files.items():
            if name == "charges" and not lines[name]:
                continue  # mostly there are none
            try:
                files.append(lines[name])
            except OSError as error:
                self.failed += 1
                if self.failed == 1 or self.failed % 100 == 0:
                    log.warning(
                        "the decision log in %s is not written (%d times): %s", files.folder, self.failed, error
                    )

    def runs(self, namespace: str = "", name: str = "", *, most: int) -> list[RunRecord]:
        """Runs of a namespace, or of all; the newest first."""
        prefix = (namespace, name) if name else (namespace,) if namespace else ()
        found = (from_line(line) for line in self._runs.newest(most, prefix))
        return [one for one in found if isinstance(one, RunRecord)]

    def cycles(self, most: int) -> list[CycleRecord]:
        """The newest first."""
        found = (from_line(line) for line in self._cycles.newest(most))
        return [one for one in found if isinstance(one, CycleRecord)]

    def charges(self, namespace: str = "") -> list[UsageCharge]:
        """Charges of a namespace, or of all; the oldest first."""
        found = (from_line(line) for line in self._charges.all((namespace,) if namespace else ()))
        return [one for one in found if isinstance(one, UsageCharge)]

    def _keep(self, record: Record, line: str) -> None:
        if isinstance(record, RunRecord):
            self._runs.append((record.namespace, record.name, record.uid), line)
            self._uids.add(record.uid)
        elif isinstance(record, UsageCharge):
            self._charged += 1
            self._charges.append((record.namespace, record.uid, str(self._charged)), line)
        else:
            self._cycles.append((f"{record.at:.6f}",), line)


def _file_of(record: Record) -> str:
    if isinstance(record, UsageCharge):
        return "charges"
    return "runs" if isinstance(record, RunRecord) else "cycles"
