"""The screen of `cotenant top`: title, names of the views, the list or an overlay, and a line of keys."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from datetime import datetime

from cotenant.cli.administrators.gpu_shares import WHOLE, counted_gpus
from cotenant.cli.administrators.top.keys import cursor, listed, scrolled
from cotenant.cli.administrators.top.rows import TopData, TopListing, waits
from cotenant.cli.administrators.top.view import VIEWS, Line, Overlay, Style, TopView
from cotenant.cli.terminal.plain_stream import unsealed
from cotenant.contract.decoding.plain_text import printable

FRAME = 5
"""Lines around the list: title, names of the views, an empty line, the head of the table, keys."""
FEET = {
    Overlay.NONE: "? keys   1 2 3 view   / search   < > sort   ↑ ↓ move   Enter details   q quit",
    Overlay.DETAILS: "↑ ↓ PgUp PgDn move   Esc back",
    Overlay.KEYS: "any key: back",
}


def room(rows: int) -> int:
    """Lines left for the list on a terminal of this height."""
    return max(0, rows - FRAME)


def screen(view: TopView, data: TopData, found: TopListing, now: datetime, size: tuple[int, int]) -> list[Line]:
    """The whole screen: at most `size` (rows, columns), with the cursor visible."""
    rows, columns = size
    covers = view.overlay is not Overlay.NONE
    head, body = _covered(view, found, columns) if covers else (found.head, _list(view, found, rows))
    lines = [_title(data, now), _tabs(view), (), head, *body[: room(rows)]][: max(0, rows - 1)]
    lines += [()] * (rows - 1 - len(lines))
    return [_cut(line, columns) for line in [*lines, _foot(view)]]


def whole(view: TopView, data: TopData, found: TopListing, now: datetime) -> str:
    """The view as text, uncut and without a cursor."""
    lines = [_title(data, now), _tabs(view), (), found.head, *(line for row in found.rows for line in row.lines)]
    return "\n".join("".join(printable(text) for text, _ in line).rstrip() for line in lines).rstrip()


def _list(view: TopView, found: TopListing, rows: int) -> list[Line]:
    if not found.rows:
        return []
    at = cursor(view, found.rows)
    lines = [_as_chosen(line) if place == at else line for place, row in enumerate(found.rows) for line in row.lines]
    return lines[scrolled(view.first, found.rows, at, room(rows)) :]


def _as_chosen(line: Line) -> Line:
    return (("".join(text for text, _ in line), Style.CHOSEN),) if line else line


def _covered(view: TopView, found: TopListing, columns: int) -> tuple[Line, list[Line]]:
    """Head and lines of the overlay."""
    if view.overlay is Overlay.KEYS:
        pairs = [*listed(view)]
        widest = max(len(keys) for keys, _ in pairs)
        return (("KEYS", Style.BOLD),), [
            ((f"  {keys.ljust(widest)}  ", Style.BOLD), (meaning, Style.PLAIN)) for keys, meaning in pairs
        ]
    if not found.rows:
        return ((), [])
    row = found.rows[cursor(view, found.rows)]
    lines = [*_wrapped(row.details(), columns)]
    return ((row.key, Style.BOLD),), lines[min(view.first, max(0, len(lines) - 1)) :]


def _wrapped(texts: Iterable[str], columns: int) -> Iterator[Line]:
    """Lines wrapped to the width of the terminal. Continuation lines are indented."""
    for line in (line for text in texts for line in unsealed(text).split("\n")):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        for part in textwrap.wrap(line, max(columns, len(indent) + 8), subsequent_indent=indent) or [""]:
            yield ((part, Style.PLAIN),)


def _title(data: TopData, now: datetime) -> Line:
    held, idle = sum(one.held_milli for one in data.gpus) / WHOLE, sum(one.is_idle for one in data.gpus)
    ill, waiting = sum(not one.healthy for one in data.gpus), sum(waits(one) for one in data.jobs)
    text = f"  {now.astimezone().strftime('%H:%M:%S')}   {counted_gpus(len(data.gpus))}: {held:g} held, "
    line: Line = (("cotenant", Style.BOLD), (text, Style.PLAIN))
    line += ((f"{idle} idle", Style.WARNING if idle else Style.PLAIN), (", ", Style.PLAIN))
    jobs = "1 job waits" if waiting == 1 else f"{waiting} jobs wait"
    line += ((f"{ill} ill", Style.BAD if ill else Style.PLAIN), (f"   {jobs}", Style.PLAIN))
    return (*line, (f"   {data.error}", Style.BAD)) if data.error else line


def _tabs(view: TopView) -> Line:
    tabs: Line = ()
    for number, name in enumerate(VIEWS, start=1):
        chosen = name == view.view
        tabs += ((f"[{number} {name}]" if chosen else f" {number} {name} ", Style.BOLD if chosen else Style.DIM),)
    search = f"   /{view.search}{'_' if view.typing else ''}" if view.search or view.typing else ""
    order = f"{view.sort}, reversed" if view.is_reversed else view.sort
    return (*tabs, (f"   by {order}{search}", Style.DIM))


def _foot(view: TopView) -> Line:
    return (("Enter: keep, Esc: all" if view.typing else FEET[view.overlay], Style.DIM),)


def _cut(line: Line, columns: int) -> Line:
    """The line without control characters, cut to the width of the terminal."""
    found: list[tuple[str, Style]] = []
    for text, style in line:
        if columns > 0:
            found.append((printable(text)[:columns], style))
            columns -= len(found[-1][0])
    return tuple(found)
