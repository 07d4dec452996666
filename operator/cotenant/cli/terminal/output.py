"""How answers are printed: as documents, as names, as aligned tables, as text for a person."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.plain_stream import PlainStream, sealed, unsealed
from cotenant.contract.decoding.plain_text import printable

_UNPRINTABLE: Final = re.compile("[^\n -~]")
FORMATS: Final = ("text", "wide", "json", "yaml", "name")


class Colour(StrEnum):
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    BOLD = "1"


def add_format(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="text",
        help="form of the output: wide has more columns, name is for scripts",
    )


def printed(
    document: Mapping[str, Any], form: str, names: Callable[[], Iterable[str]], text: Callable[[bool], str]
) -> str:
    """A document in the requested form: whole, as `names`, or as `text` for a person. `text` gets whether it is
    wide.
    """
    if form == "name":
        return "\n".join(names())
    return as_document(document, form) if form in {"json", "yaml"} else text(form == "wide")


def as_document(document: Mapping[str, Any], form: str) -> str:
    """The document as YAML or JSON. Characters that a terminal would not show are escaped as the format escapes
    them.
    """
    if form == "json":
        return _UNPRINTABLE.sub(_in_json, json.dumps(document, indent=2, ensure_ascii=False))
    from cotenant.cli.terminal import yaml_blocks

    text = yaml_blocks.dump(document, allow_unicode=True)
    if all(line == printable(line) for line in text.replace("\t", " ").split("\n")):
        return text
    return yaml_blocks.dump(document, allow_unicode=False)


def _in_json(found: re.Match[str]) -> str:
    return found.group() if printable(found.group()) == found.group() else json.dumps(found.group())[1:-1]


def painted(text: str, colour: Colour) -> str:
    """The text in colour if the terminal wants colour (https://no-color.org), otherwise as it is."""
    to_terminal = isinstance(sys.stdout, PlainStream) and sys.stdout.isatty()
    if not to_terminal or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return sealed(f"[{colour.value}m") + text + sealed("[0m")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, with three spaces between them, as kubectl prints."""
    lines = [tuple(header), *(tuple(cell.replace("\n", " ") for cell in row) for row in rows)]
    widths = [max(_width(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "   ".join(cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def object_table(
    header: Sequence[str],
    objects: Iterable[Mapping[str, Any]],
    cells: Callable[[Mapping[str, Any]], tuple[str, ...]],
    *,
    namespaces: bool,
) -> str:
    """A line for each object, if `namespaces` with its namespace before the other cells."""
    if not namespaces:
        return table(header, (cells(one) for one in objects))
    return table(("NAMESPACE", *header), ((one["metadata"]["namespace"], *cells(one)) for one in objects))


def counted(number: int, noun: str) -> str:
    """A count with its noun: `1 job`, `2 jobs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _width(cell: str) -> int:
    return len(unsealed(cell))


def about_when(timestamp: str, now: datetime | None = None) -> str:
    """A time in the reader's own zone: `14:05 (in 20 min)` if it is today, otherwise with the date."""
    at = datetime.fromisoformat(timestamp)
    moment = now or clock.now()
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
