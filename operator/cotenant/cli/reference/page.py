"""docs/commands.md: every verb with its arguments, generated from the parser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from cotenant.cli.main import NOT_OF_THE_PLUGIN, build_parser
from cotenant.cli.reference.commands import Argument, Command, command

SHARED_BY: Final = 6
"""A flag that at least this many verbs have with one meaning is described once."""

HEAD: Final = """\
# Commands

<!-- Generated from the program's own parser by `make crds`. Do not edit. -->

`cotenant VERB` and, with the plugin, `kubectl cotenant VERB` are one program; `--help` behind any verb says what is
here, and `make package` writes the same as manual pages. How it is installed, and what its exit codes mean:
[the program](administrators.md#the-program). Verbs at work: [the tutorial](tutorial.md), [for tenants](tenants.md),
[for administrators](administrators.md).
"""


def markdown() -> str:
    program = command(build_parser())
    counted = Counter(
        flag for verb in program.below for flag in {flag: 0 for one in verb.whole() for flag in one.flags}
    )
    shared = {flag for flag, count in counted.items() if count >= SHARED_BY}
    lines = [HEAD, *_index(program), *_shared(flag for flag in counted if flag in shared)]
    lines += [line for verb in program.below for line in _section(verb, shared)]
    return "\n".join(lines).rstrip() + "\n"


def _index(program: Command) -> Iterator[str]:
    yield from ("| verb | what it does |", "|---|---|")
    for verb in program.below:
        alone = " (not in the plugin)" if verb.words[-1] in NOT_OF_THE_PLUGIN else ""
        yield f"| [`{verb.words[-1]}`](#{_anchor(verb)}) | {_plain(verb.summary)}{alone} |"
    yield ""


def _shared(flags: Iterable[Argument]) -> Iterator[str]:
    yield from ("## Flags of many verbs", "")
    yield from _listed(flags)
    yield ""


def _section(one: Command, shared: set[Argument]) -> Iterator[str]:
    yield from (f"{'#' * len(one.words)} {one.name}", "", f"{_sentence(_plain(one.summary))}", "")
    yield from ("```", one.synopsis, "```", "")
    if one.text:
        yield from ("```text", one.text.strip(), "```", "") if "\n  " in one.text else (_plain(one.text), "")
    own = [*one.operands, *(flag for flag in one.flags if flag not in shared)]
    if own:
        yield from (*_listed(own), "")
    also = [flag for flag in one.flags if flag in shared]
    if also:
        names = ", ".join(f"`{flag.form.partition(' ')[0].rstrip(',')}`" for flag in also)
        yield from (f"Also {names}: [flags of many verbs](#flags-of-many-verbs).", "")
    for below in one.below:
        yield from _section(below, shared)


def _listed(arguments: Iterable[Argument]) -> Iterator[str]:
    for one in arguments:
        yield f"- `{one.form}`" + (f": {_plain(one.about)}" if one.about else "")


def _anchor(one: Command) -> str:
    return "-".join(one.words)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "?")) else ".")


def _plain(text: str) -> str:
    """The text on one line. Only text in backticks is Markdown."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else re.sub(r"([*_<>\[\]|\\])", r"\\\1", part) for part in parts)
