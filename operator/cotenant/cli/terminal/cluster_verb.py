"""The parser of a verb that asks a cluster. The flags that such verbs share are one group of its help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

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
    """Seconds of a number, or of a time as kubectl takes it: `90`, `90s`, `15m`, `1h30m`."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text)
    if found is None or not text:
        raise argparse.ArgumentTypeError(f"write seconds, or a time such as 90s or 15m, not {text}")
    hours, minutes, rest = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + rest
