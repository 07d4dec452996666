"""The commands of a parser as data: words, arguments and texts, from which pages are written.

The layout does not come from argparse, whose usage lines and wrapping differ between versions of Python. So the same
parser gives the same data with every version.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_NO_VALUE: Final = 0


@dataclass(frozen=True, slots=True)
class Argument:
    """A flag or an operand as a person types it, and what it means."""

    form: str
    about: str


@dataclass(frozen=True, slots=True)
class Command:
    words: tuple[str, ...]
    """The command from the program's name on: ("cotenant", "hold", "queue")."""
    summary: str
    text: str
    """The parser's texts above and below its arguments."""
    synopsis: str
    operands: tuple[Argument, ...]
    flags: tuple[Argument, ...]
    below: tuple[Command, ...]

    @property
    def name(self) -> str:
        return " ".join(self.words)

    def whole(self) -> Iterator[Command]:
        """This command and all commands below it."""
        yield self
        for one in self.below:
            yield from one.whole()


def command(parser: argparse.ArgumentParser, words: tuple[str, ...] = (), summary: str = "") -> Command:
    """The command of a parser with all commands below it, in the order of registration. Hidden ones are left out."""
    words = words or (parser.prog,)
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    flags = [action for action in shown if action.option_strings and not isinstance(action, argparse._HelpAction)]
    operands = [action for action in shown if not action.option_strings]
    named = [action for action in operands if not isinstance(action, argparse._SubParsersAction)]
    texts = [parser.description or "", parser.epilog or ""]
    summary = summary or texts[0]
    return Command(
        words=words,
        summary=summary,
        text="\n\n".join(text for text in texts if text and text != summary),
        synopsis=_synopsis(" ".join(words), flags, operands),
        operands=tuple(Argument(_operand(action), _about(action, parser.prog)) for action in named),
        flags=tuple(Argument(_flag(action), _about(action, parser.prog)) for action in flags),
        below=tuple(_below(operands, words)),
    )


def _below(operands: list[argparse.Action], words: tuple[str, ...]) -> Iterator[Command]:
    for action in operands:
        if isinstance(action, argparse._SubParsersAction):
            for one in action._get_subactions():
                yield command(action.choices[one.dest], (*words, one.dest), one.help or "")


def _synopsis(name: str, flags: list[argparse.Action], operands: list[argparse.Action]) -> str:
    """The synopsis. Required flags stand in it by name, all others as one word."""
    required = [_flag(action).rpartition(", ")[2] for action in flags if action.required]
    optional = ["[FLAGS]"] if len(required) < len(flags) else []
    return " ".join([name, *optional, *required, *(_operand(action) for action in operands)])


def _operand(action: argparse.Action) -> str:
    if isinstance(action, argparse._SubParsersAction):
        return "VERB" if action.required else "[VERB]"
    return _repeated(_meant(action), action.nargs)


def _flag(action: argparse.Action) -> str:
    """Every spelling of the flag. The value follows the last spelling."""
    value = "" if action.nargs == _NO_VALUE else f" {_repeated(_meant(action), action.nargs)}"
    return ", ".join(action.option_strings) + value


def _meant(action: argparse.Action) -> str:
    """The placeholder for an argument's value."""
    if isinstance(action.metavar, str):
        return action.metavar
    if action.metavar is not None:
        return " ".join(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _repeated(word: str, nargs: int | str | None) -> str:
    if nargs in (argparse.ZERO_OR_MORE, argparse.REMAINDER):
        return f"[{word} …]"
    if nargs == argparse.ONE_OR_MORE:
        return f"{word} …"
    return f"[{word}]" if nargs == argparse.OPTIONAL else word


def _about(action: argparse.Action, program: str) -> str:
    known = {name: value for name, value in vars(action).items() if value != argparse.SUPPRESS} | {"prog": program}
    if action.choices is not None:
        known["choices"] = ", ".join(map(str, action.choices))
    return " ".join(((action.help or "") % known).split())
