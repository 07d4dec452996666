"""The log as text: one JSON object in each line, with its kind and version.

A line that cannot be read is skipped and counted, because a process that is killed while it writes leaves half a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from cotenant.decision_log.codec import CodecError, decode, encode
from cotenant.decision_log.cycles import CycleRecord
from cotenant.decision_log.runs import RunRecord
from cotenant.decision_log.showback.charges import UsageCharge

VERSION: Final = 1
LINE_BYTES_MAX: Final = 1 << 20
Record: TypeAlias = CycleRecord | RunRecord | UsageCharge
_KINDS: Final[dict[str, type[Record]]] = {"Cycle": CycleRecord, "Run": RunRecord, "Charge": UsageCharge}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


class LineError(ValueError):
    """This program cannot read the line."""


def to_line(record: Record) -> str:
    """One line of JSON, without its end."""
    own = {"kind": _NAMES[type(record)], "version": VERSION}
    return json.dumps(own | encode(record), separators=(",", ":"), ensure_ascii=False)


def from_line(line: str) -> Record:
    """Raises LineError."""
    try:
        document = json.loads(line)
    except ValueError as error:
        raise LineError(f"not JSON: {error}") from None
    kind = _KINDS.get(document.get("kind", "")) if isinstance(document, dict) else None
    if kind is None:
        raise LineError("neither a Cycle, a Run nor a Charge")
    if document.get("version") != VERSION:
        raise LineError(f"version {document.get('version')}; this program reads {VERSION}")
    try:
        return decode(kind, document)
    except CodecError as error:
        raise LineError(str(error)) from None


@dataclass(slots=True)
class Reader:
    """Reads lines, and counts those that it skips."""

    skipped: int = 0

    def records(self, lines: Iterable[str]) -> Iterator[Record]:
        for line in lines:
            if not line.strip():
                continue
            try:
                yield from_line(line)
            except LineError:
                self.skipped += 1
