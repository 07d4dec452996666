"""Manual pages in roff's man macros (groff_man(7)): one for the program and one for each verb.

Characters that a shell or roff would interpret are escaped. A hyphen can be copied as a hyphen, and a dot at the start
of a line is no request. Characters beyond ASCII are written as code points, so the pages need no locale.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from typing import Final

from cotenant import __version__
from cotenant.cli.reference.commands import Argument, Command, command

SECTION: Final = "1"
EXIT_CODES: Final = (
    Argument("0", "done, or answered"),
    Argument("1", "refused, failed, or problems were found"),
    Argument("2", "the command line cannot be read, or there is no cluster to ask"),
    Argument("3", "there is no such object"),
    Argument("4", "you are not authorized, or not authenticated"),
    Argument("5", "nobody answers: try again"),
)
_SPECIAL: Final = {"\\": r"\(rs", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def pages(parser: argparse.ArgumentParser) -> dict[str, str]:
    """File name → page: `cotenant.1`, and `cotenant-VERB.1` with all commands below the verb."""
    program = command(parser)
    return {f"{'-'.join(one.words)}.{SECTION}": _page(one, program) for one in (program, *program.below)}


def _page(one: Command, program: Command) -> str:
    lines = [f'.TH "{_roff("-".join(one.words).upper())}" {SECTION} "" "cotenant {__version__}" "Cotenant"']
    lines += [".SH NAME", f"{_roff('-'.join(one.words))} \\- {_text(one.summary)}"]
    lines += [".SH SYNOPSIS", f".B {_roff(one.synopsis)}"]
    if one.text and one is not program:
        lines += [".SH DESCRIPTION", *_paragraphs(one.text)]
    lines += _arguments(".SH ARGUMENTS", one.operands) + _arguments(".SH OPTIONS", one.flags)
    if one is program:
        lines += _arguments(".SH VERBS", [Argument(verb.words[-1], verb.summary) for verb in program.below])
    else:
        for below in (found for found in one.whole() if found is not one):
            lines += [f'.SH "{_roff(below.name.upper())}"', _text(below.summary), ".PP", f".B {_roff(below.synopsis)}"]
            lines += [".PP", *_paragraphs(below.text)] if below.text else []
            lines += _arguments("", [*below.operands, *below.flags])
    lines += _arguments(".SH EXIT STATUS", EXIT_CODES)
    others = program.below if one is program else (program,)
    named = [f"\\fB{_roff('-'.join(other.words))}\\fR({SECTION})" for other in others]
    return "\n".join([*lines, ".SH SEE ALSO", ", ".join(named)]) + "\n"


def _arguments(heading: str, arguments: Sequence[Argument]) -> list[str]:
    if not arguments:
        return []
    return [heading] * bool(heading) + [line for one in arguments for line in _tagged(one)]


def _tagged(one: Argument) -> Iterator[str]:
    yield from (".TP", f"\\fB{_roff(one.form)}\\fR", _text(one.about) or r"\&")


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs. Indented lines keep their layout."""
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            yield ".PP"
        if "\n  " in paragraph:
            yield from (".nf", *(_text(line, keep=True) for line in paragraph.splitlines()), ".fi")
        else:
            yield _text(paragraph)


def _text(text: str, keep: bool = False) -> str:
    """One line of running text. Backticks make bold."""
    line = text if keep else " ".join(text.split())
    parts = re.split(r"`([^`]*)`", line)
    return "".join(f"\\fB{_roff(part)}\\fR" if at % 2 else _roff(part) for at, part in enumerate(parts))


def _roff(text: str) -> str:
    escaped = "".join(_SPECIAL.get(one, one if one.isascii() else f"\\[u{ord(one):04X}]") for one in text)
    return (r"\&" + escaped) if escaped.startswith(".") else escaped.replace('"', r"\(dq")
