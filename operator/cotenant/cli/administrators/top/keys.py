"""What each key does in `cotenant top`. The keys are those on which htop, k9s and less agree. `?` lists them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from cotenant.cli.administrators.top.view import SORTS, VIEWS, Overlay, TopRow, TopView

FAR: Final = 1 << 30
ENTER: Final = frozenset({"\n", "\r", "KEY_ENTER"})
ESCAPE: Final = "\x1b"
CTRL_C: Final = "\x03"
BACK: Final = frozenset({ESCAPE, "q", "KEY_F(10)", *ENTER})
NEXT_SORT: Final = {"s": 1, ">": 1, "<": -1}


def listed(view: TopView) -> Iterator[tuple[str, str]]:
    """Every key with its effect, as `?` shows it."""
    yield "↑ ↓  j k", "one row up or down"
    yield "PgUp PgDn", "a page up or down"
    yield "Home End  g G", "the first and the last row"
    yield "Enter", "details of the row; Esc goes back"
    yield "1 2 3  Tab", f"the view: {', '.join(VIEWS)}"
    yield "/", "only rows with a text: type it, then Enter; Esc lists all again"
    yield "n", "the next row with the text that was searched for last"
    yield "s  < >", "the next order; the one before, the one after"
    for name in SORTS[view.view]:
        yield name[0].upper(), f"by {name}; once more: reversed"
    yield "?  F1", "these keys"
    yield "q  F10", "leave"


def pressed(view: TopView, key: str, rows: Sequence[TopRow] = (), room: int = 10) -> TopView | None:
    """The view after this key; None if the person quits.

    A key is a letter or a name such as `KEY_DOWN`. `rows` are the rows of the current view, of which `room` lines fit.
    """
    if key == CTRL_C:
        return None
    if view.typing:
        return _typed(view, key)
    if view.overlay is not Overlay.NONE:
        return _over(view, key, room)
    if (step := _steps(room).get(key)) is not None:
        return _moved(view, rows, cursor(view, rows) + step, room)
    if key in ENTER:
        return replace(view, overlay=Overlay.DETAILS, first=0) if rows else view
    return _command(view, key, rows, room)


def cursor(view: TopView, rows: Sequence[TopRow]) -> int:
    """Index of the selected row. If that row is gone, the index that it had."""
    found = next((place for place, row in enumerate(rows) if row.key == view.chosen), view.at)
    return max(0, min(found, len(rows) - 1))


def scrolled(first: int, rows: Sequence[TopRow], at: int, room: int) -> int:
    """First line to show, so that the row at this index is visible."""
    before = sum(len(row.lines) for row in rows[:at])
    after = before + (len(rows[at].lines) if rows else 0)
    return max(0, min(max(first, after - room), before))


def _command(view: TopView, key: str, rows: Sequence[TopRow], room: int) -> TopView | None:
    orders = SORTS[view.view]
    letters = {name[0].upper(): name for name in orders}
    match key:
        case "q" | "KEY_F(10)":
            return None
        case "1" | "2" | "3":
            return _to(view, VIEWS[int(key) - 1])
        case "\t":
            return _to(view, VIEWS[(VIEWS.index(view.view) + 1) % len(VIEWS)])
        case "?" | "KEY_F(1)":
            return replace(view, overlay=Overlay.KEYS, first=0)
        case "/" | "KEY_F(3)" | "KEY_F(4)":
            return replace(view, typing=True, search="", first=0)
        case "\x1b":
            return replace(view, search="", first=0)
        case "n":
            return _next_match(view, rows, room)
        case "s" | "<" | ">":
            following = orders[(orders.index(view.sort) + NEXT_SORT[key]) % len(orders)]
            return _sorted(view, following, is_reversed=False)
        case _ if key in letters:
            again = view.sort == letters[key]
            return _sorted(view, letters[key], is_reversed=again and not view.is_reversed)
        case _:
            return view


def _steps(room: int) -> dict[str, int]:
    page = max(1, room - 1)
    return {
        "KEY_DOWN": 1, "j": 1, "KEY_UP": -1, "k": -1, "KEY_NPAGE": page, "KEY_PPAGE": -page,
        "KEY_HOME": -FAR, "g": -FAR, "KEY_END": FAR, "G": FAR,
    }  # fmt: skip


def _to(view: TopView, name: str) -> TopView:
    return replace(view, view=name, is_reversed=False, chosen="", at=0, first=0)


def _sorted(view: TopView, name: str, *, is_reversed: bool) -> TopView:
    """The view in another order. The cursor goes to the top, as in htop."""
    sorts = {**view.sorts, view.view: name}
    return replace(view, sorts=sorts, is_reversed=is_reversed, chosen="", at=0, first=0)


def _moved(view: TopView, rows: Sequence[TopRow], to: int, room: int) -> TopView:
    at = max(0, min(to, len(rows) - 1))
    if not rows:
        return view
    return replace(view, chosen=rows[at].key, at=at, first=scrolled(view.first, rows, at, room))


def _next_match(view: TopView, rows: Sequence[TopRow], room: int) -> TopView:
    """The cursor at the next row with the text. After the last row the search starts at the first."""
    text, at = (view.search or view.sought).casefold(), cursor(view, rows)
    places = [*range(at + 1, len(rows)), *range(at)]
    found = next((place for place in places if text and text in rows[place].text.casefold()), at)
    return _moved(view, rows, found, room)


def _over(view: TopView, key: str, room: int) -> TopView:
    """Keys in the details and in the list of keys: they scroll or close it."""
    if key in BACK or view.overlay is Overlay.KEYS:
        return replace(view, overlay=Overlay.NONE, first=0)
    return replace(view, first=max(0, min(view.first + _steps(room).get(key, 0), FAR)))


def _typed(view: TopView, key: str) -> TopView:
    if key in ENTER:
        return replace(view, typing=False, sought=view.search or view.sought)
    if key == ESCAPE:
        return replace(view, typing=False, search="")
    if key in {"KEY_BACKSPACE", "\x7f", "\b"}:
        return replace(view, search=view.search[:-1])
    return replace(view, search=view.search + key) if len(key) == 1 and key.isprintable() else view
