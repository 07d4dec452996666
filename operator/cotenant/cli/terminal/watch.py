"""Asking again and again: `--watch` prints the answer whenever it has changed; others wait for what they asked for."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from cotenant import names
from cotenant.cli.errors import EXIT_UNAVAILABLE, UserError
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.output import printed
from cotenant.cli.terminal.plain_stream import sealed

Document: TypeAlias = dict[str, Any]
EVERY_S: Final = 2.0
CLEAR: Final = sealed("[H") + sealed("[2J")
_BETWEEN: Final = {"yaml": "---\n", "json": "", "name": ""}


def add_watch(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "-w",
        "--watch",
        action="store_true",
        help=f"ask every {EVERY_S:.0f} s, and print what has changed, until Ctrl-C",
    )


def looks(connection: Connection, path: str, timeout_s: float, every_s: float = EVERY_S) -> Iterator[Document]:
    """The object as it is now, and again and again until the time is over."""
    waited = 0.0
    while True:
        yield connection.read(path)
        if waited >= timeout_s:
            return
        time.sleep(every_s)
        waited += every_s


def show(args: argparse.Namespace, answer: Callable[[], str]) -> int:
    """Print the answer once or, with `--watch`, whenever it changes: on a terminal in place of the last one, otherwise
    below it.

    If the operator does not answer for a while, the watch goes on.
    """
    if not getattr(args, "watch", False):
        _print(answer())
        return 0
    in_place = sys.stdout.isatty() and args.output in {"text", "wide"}
    last: str | None = None
    while True:
        try:
            text = answer()
        except UserError as error:
            if error.exit_code != EXIT_UNAVAILABLE:
                raise
            text = f"{last or ''}\n\n{error}".lstrip("\n") if in_place else (last or "")
            if not in_place:
                print(error, file=sys.stderr)
        if text != last:
            _print(text, before=CLEAR if in_place else "" if last is None else _BETWEEN.get(args.output, "\n"))
            last = text
        time.sleep(EVERY_S)


def show_found(
    args: argparse.Namespace,
    read: Callable[[], Document],
    text: Callable[[Document, bool], Iterable[str]],
    kind: str = "",
) -> int:
    """Show the document that `read` returns, in the form that `--output` asks for.

    `text` makes the lines for a person, and gets whether they may be wide. `kind`: the names of the document or of its
    items are printed as `kubectl get -o name` does; without it, they are printed alone.
    """

    def names_of(found: Document) -> list[str]:
        before = f"{kind}.{names.GROUP}/" if kind else ""
        return [before + one["metadata"]["name"] for one in found.get("items", [found])]

    def answer() -> str:
        found = read()
        return printed(found, args.output, lambda: names_of(found), lambda wide: "\n".join(text(found, wide)))

    return show(args, answer)


def _print(text: str, before: str = "") -> None:
    sys.stdout.write(before + text.rstrip("\n") + "\n" if text else before)
    sys.stdout.flush()
