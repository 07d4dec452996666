"""The parser of a verb that asks a cluster. The flags that such verbs share are one group of its help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from cotenant.cli.terminal.connection import add_arguments
from cotenant.cli.terminal.output import add_format
from cotenant.cli.terminal.watch import add_watch


def cluster_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    text: str,
    *,
    all_namespaces: bool = False,
    printed: bool = False,
    watched: bool = False,
    **more: Any,
) -> argparse.ArgumentParser:
    """The parser, ready for the verb's own flags and arguments.

    `text` is its help. `printed`: it has `--output`. `watched`: it also has `--watch`. `more` is passed to argparse.
    """
    parser = verbs.add_parser(name, help=text, **more)
    shared = parser.add_argument_group("flags of many verbs")
    add_arguments(shared, all_namespaces=all_namespaces)
    if printed or watched:
        add_format(shared)
    if watched:
        add_watch(shared)
    parser.set_defaults(run=run)
    return parser


def add_timeout(parser: argparse.ArgumentParser, default_s: float, text: str) -> None:
    parser.add_argument("--timeout", type=seconds, default=default_s, metavar="SECONDS", help=text)


def seconds(text: str) -> float:
    """Seconds of a number, or of a time: `90`, `90s`, `1h30m`. Raises ArgumentTypeError."""
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else time(text).total_seconds()


def time(text: str) -> timedelta:
    """A time as kubectl takes it, or in days and weeks: `90s`, `1h30m`, `7d`, `4w`. Raises ArgumentTypeError."""
    found = _TIME.fullmatch(text)
    span = timedelta(**{unit: float(amount) for unit, amount in found.groupdict("0").items()} if found else {})
    if not span:
        raise argparse.ArgumentTypeError(f"write a time such as 90s, 1h30m, 7d or 4w, not {text}")
    return span


_TIME: Final = re.compile(
    "".join(rf"(?:(?P<{unit}>\d{{1,5}}){unit[0]})?" for unit in ("weeks", "days", "hours", "minutes"))
    + r"(?:(?P<seconds>\d{1,6}(?:\.\d+)?)s)?"
)
