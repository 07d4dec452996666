"""`--watch`: asks again and again, and prints the answer whenever it has changed."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Final

from cotenant.cli.errors import EXIT_UNAVAILABLE, UserError
from cotenant.cli.terminal.plain_stream import sealed

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


def show(args: argparse.Namespace, answer: Callable[[], str], *, sleep: Callable[[float], object] = time.sleep) -> int:
    """Print the answer once or, with `--watch`, whenever it changes: on a terminal in place of the last one, otherwise
    below it.

    If the operator does not answer for a while, the watch goes on.
    """
    if not args.watch:
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
        sleep(EVERY_S)


def _print(text: str, before: str = "") -> None:
    sys.stdout.write(before + text.rstrip("\n") + "\n" if text else before)
    sys.stdout.flush()
