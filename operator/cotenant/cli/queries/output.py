"""How answers are printed: as documents, as names, as aligned tables, as text for a person."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

FORMATS: Final = ("text", "wide", "json", "yaml", "name")


class Colour(StrEnum):
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    BOLD = "1"


def add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=FORMATS, default="text", help="how it is printed")


def print_document(document: Mapping[str, Any], form: str) -> bool:
    """Print it where the format is one of documents; false: it is for the caller."""
    if form == "json":
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif form == "yaml":
        import yaml

        print(yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True), end="")
    else:
        return False
    return True


def painted(text: str, colour: Colour) -> str:
    """In colour on a terminal that wants it (https://no-color.org), else as it is."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{colour.value}m{text}\x1b[0m"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, three blanks between them, as kubectl prints."""
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                     for line in lines)  # fmt: skip


def about_when(timestamp: str, now: datetime | None = None) -> str:
    """`14:05 (in 20 min)` for a time of today, in the reader's own zone; with the day where it is another."""
    at = datetime.fromisoformat(timestamp)
    moment = now or datetime.now(UTC)
    local, here = at.astimezone(), moment.astimezone()
    shown = local.strftime("%H:%M") if local.date() == here.date() else local.strftime("%Y-%m-%d %H:%M")
    return f"{shown} ({_in(at - moment)})"


def _in(wait: timedelta) -> str:
    seconds = int(wait.total_seconds())
    if seconds < 60:
        return "any moment"
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit or unit == 60:
            return f"in {seconds // unit} {name}"
    return "any moment"
