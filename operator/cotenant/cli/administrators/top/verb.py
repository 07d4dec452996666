"""The verb `top`, drawn by curses from the standard library.

A thread reads the cluster every two seconds, so a key never waits for an answer. `--once` prints a view as text.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from cotenant.cli.administrators.gpus import GPU_NODES, gpus_now
from cotenant.cli.administrators.top.keys import pressed
from cotenant.cli.administrators.top.rows import TopData, listing
from cotenant.cli.administrators.top.screen import room, screen, whole
from cotenant.cli.administrators.top.view import VIEWS, Line, Style, TopView
from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import Connection, connect

if TYPE_CHECKING:
    import curses

EVERY_S: Final = 2.0
KEY_MS: Final = 200
"""Milliseconds between two reads of the keyboard."""
ESCAPE_MS: Final = 25
"""After this many milliseconds Esc is the key itself and not the start of a sequence."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(verbs, "top", run, "show queues, GPUs and waiting jobs live in the terminal")
    parser.add_argument(
        "--view", choices=[one.lower() for one in VIEWS], default="queues", help="the view to start with"
    )
    parser.add_argument("--once", action="store_true", help="print the view once and exit")


def run(args: argparse.Namespace) -> int:
    connection = connect(args)
    view = TopView(view=next(one for one in VIEWS if one.lower() == args.view))
    if args.once:
        data, now = read(connection), clock.now()
        print(whole(view, data, listing(view, data, now), now))
        return 0
    if not sys.stdout.isatty():
        raise UserError("top needs a terminal; --once prints one view", EXIT_USAGE)
    import curses

    feed = Feed(connection)
    feed.refresh()
    thread = threading.Thread(target=feed.run, daemon=True)
    thread.start()
    try:
        curses.wrapper(lambda window: interact(window, feed, view))
    finally:
        feed.ended.set()
    return 0


def read(connection: Connection) -> TopData:
    """Read everything that is shown. Raises UserError."""
    nodes = connection.read(GPU_NODES)["items"]
    return TopData(
        queues=connection.get("/queuetrees")["items"],
        gpus=gpus_now(connection, nodes, clock.now()),
        jobs=connection.get("/explanations")["items"],
    )


@dataclass(slots=True)
class Feed:
    """The data that was read last. If a read fails, the data stays and the error is shown."""

    connection: Connection
    data: TopData = field(default_factory=TopData)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.ended.wait(EVERY_S):
            self.refresh()

    def refresh(self) -> None:
        try:
            self.data = read(self.connection)
        except UserError as error:
            self.data = replace(self.data, error=str(error))


def interact(window: curses.window, feed: Feed, view: TopView) -> None:
    """Draw and handle keys until the person quits."""
    import curses

    with contextlib.suppress(curses.error):  # a terminal that cannot hide its cursor
        curses.curs_set(0)
    curses.set_escdelay(ESCAPE_MS)
    window.timeout(KEY_MS)
    styles = _styles()
    chosen: TopView | None = view
    while chosen is not None:
        rows, columns = window.getmaxyx()
        data, now = feed.data, clock.now()
        found = listing(chosen, data, now)
        _draw(window, screen(chosen, data, found, now, (rows, columns - 1)), styles)
        key = _key(window)
        if key is not None:
            chosen = pressed(chosen, key, found.rows, room(rows))


def _draw(window: curses.window, lines: list[Line], styles: dict[Style, int]) -> None:
    window.erase()
    for row, line in enumerate(lines):
        column = 0
        for text, style in line:
            window.addstr(row, column, text, styles[style])
            column += len(text)
    window.refresh()


def _key(window: curses.window) -> str | None:
    """A letter, or the name of a key; None if no key was pressed."""
    import curses

    try:
        found: Any = window.get_wch()
    except curses.error:
        return None
    return found if isinstance(found, str) else curses.keyname(found).decode()


def _styles() -> dict[Style, int]:
    """Colours, if the terminal has them and NO_COLOR is not set."""
    import curses
    import os

    plain = {Style.PLAIN: 0, Style.BOLD: curses.A_BOLD, Style.DIM: curses.A_DIM, Style.CHOSEN: curses.A_REVERSE}
    if not curses.has_colors() or os.environ.get("NO_COLOR"):
        return plain | {Style.GOOD: 0, Style.WARNING: curses.A_BOLD, Style.BAD: curses.A_UNDERLINE}
    curses.start_color()
    curses.use_default_colors()
    colours = {Style.GOOD: curses.COLOR_GREEN, Style.WARNING: curses.COLOR_YELLOW, Style.BAD: curses.COLOR_RED}
    for style, colour in colours.items():
        curses.init_pair(style.value, colour, -1)
    return plain | {style: curses.color_pair(style.value) for style in colours}
