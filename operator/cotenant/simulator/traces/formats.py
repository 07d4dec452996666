"""Opens a trace file, compressed with gzip or not, and recognises its layout."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from cotenant.simulator.traces.philly import read_philly
from cotenant.simulator.traces.swf import FIELDS, read_swf
from cotenant.simulator.traces.tables import is_helios, is_openb, read_helios, read_openb, read_plain
from cotenant.simulator.traces.trace import Trace, TraceError

READERS: Final[Mapping[str, Callable[[Iterable[str]], Trace]]] = MappingProxyType(
    {"csv": read_plain, "swf": read_swf, "openb": read_openb, "philly": read_philly, "helios": read_helios}
)


def read_file(path: str, layout: str | None = None) -> Trace:
    """Read the file. `layout`: a name in `READERS`; None recognises it. Raises TraceError, also if the file cannot be
    read.
    """
    try:
        raw = Path(path).read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise TraceError(f"{path}: {error}") from error
    try:
        return READERS[layout or layout_of(text)](text.splitlines(keepends=True))
    except (TraceError, csv.Error) as error:
        raise TraceError(f"{path}: {error}") from error


def layout_of(text: str) -> str:
    """Name of the layout, from the first line with content."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    words = first.split()
    if first.startswith("["):
        return "philly"
    if first.startswith(";") or (
        len(words) == FIELDS and all(word.lstrip("-").replace(".", "", 1).isdigit() for word in words)
    ):
        return "swf"
    columns = [name.strip() for name in first.split(",")]
    if is_openb(columns):
        return "openb"
    return "helios" if is_helios(columns) else "csv"
