"""Names of objects on a command line: `NAME`, `NAMESPACE/NAME`, `sw/NAME`, or what `-o name` prints."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Final

from cotenant import names
from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.sdk.job_paths import object_path

_KINDS: Final = {
    "job": ("trainingjob", "tj"),
    "request": ("quotarequest", "qr"),
    "session": ("session", "ses"),
    "sweep": ("sweep", "sw"),
}
"""Noun → its kind and the short name, as people write them before a `/`."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    namespace: str
    name: str
    noun: str = "job"
    """One of `_KINDS`."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        return object_path(f"{_KINDS[self.noun][0]}s", self.namespace, self.name)


def is_of(noun: str, text: str) -> bool:
    """True if the text says that it names one of this kind: `sw/NAME`, or as `-o name` prints it."""
    before, slash, _ = text.partition("/")
    return bool(slash) and before.removesuffix(f".{names.GROUP}") in _KINDS[noun]


def split(text: str, noun: str = "job") -> tuple[str, str]:
    """(namespace or "", name). Raises UserError."""
    namespace, _, name = (text.partition("/")[2] if is_of(noun, text) else text).rpartition("/")
    if not name or "/" in namespace:
        raise UserError(f"{text!r} is not the name of a {noun}: give NAME, or NAMESPACE/NAME", EXIT_USAGE)
    return namespace, name


def named(args: argparse.Namespace, text: str, noun: str = "job") -> tuple[Connection, ObjectName]:
    """The connection and the named object. Raises UserError."""
    namespace, name = split(text, noun)
    connection = connect(args)
    return connection, ObjectName(namespace or connection.namespace, name, noun)
