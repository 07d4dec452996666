"""A parser as data, with every form that an argument may have."""

from __future__ import annotations

import argparse

import pytest

from cotenant.cli.main import build_parser
from cotenant.cli.reference.commands import Argument, Command, command


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="p", description="Does things.")
    verbs = whole.add_subparsers(metavar="VERB", required=True)
    run = verbs.add_parser("run", help="do it", epilog="More of it.")
    run.add_argument("file", metavar="FILE", help="what  is\n run")
    run.add_argument("words", nargs=argparse.REMAINDER)
    run.add_argument("-k", "--kind", choices=["a", "b"], default="a", help="of %(choices)s (default: %(default)s)")
    run.add_argument("--to", metavar="DIR", required=True)
    run.add_argument("-q", action="store_true")
    run.add_argument("--hidden", help=argparse.SUPPRESS)
    verbs.add_parser("__asked")
    return whole


def test_a_parser_is_told_whole() -> None:
    assert command(parser()) == Command(
        words=("p",),
        summary="Does things.",
        text="",
        synopsis="p VERB",
        operands=(),
        flags=(),
        below=(
            Command(
                words=("p", "run"),
                summary="do it",
                text="More of it.",
                synopsis="p run [FLAGS] --to DIR FILE [WORDS …]",
                operands=(Argument("FILE", "what is run"), Argument("[WORDS …]", "")),
                flags=(
                    Argument("-k, --kind {a,b}", "of a, b (default: a)"),
                    Argument("--to DIR", ""),
                    Argument("-q", ""),
                ),
                below=(),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("nargs", "form"), [(None, "X"), ("?", "[X]"), ("*", "[X …]"), ("+", "X …"), (argparse.REMAINDER, "[X …]")]
)
def test_how_often_an_operand_may_come_is_in_its_form(nargs: str | None, form: str) -> None:
    one = argparse.ArgumentParser(prog="p")
    one.add_argument("x", metavar="X", nargs=nargs)
    assert command(one).operands == (Argument(form, ""),)


def test_every_verb_of_the_program_has_a_summary() -> None:
    assert [one.name for one in command(build_parser()).whole() if not one.summary] == []
