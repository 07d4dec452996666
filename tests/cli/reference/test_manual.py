"""Manual pages: one for each verb, which roff reads without a complaint."""

from __future__ import annotations

import argparse
import shutil
import subprocess

import pytest

from cotenant import __version__
from cotenant.cli import errors
from cotenant.cli.main import build_parser
from cotenant.cli.reference import manual

PAGES = manual.pages(build_parser())


def test_a_page_is_that_of_its_parser() -> None:
    parser = argparse.ArgumentParser(prog="p", description="Does things.")
    run = parser.add_subparsers(metavar="VERB", required=True).add_parser("run", help="do `it` …", epilog=".so 'x'")
    run.add_argument("-k", "--kind", metavar="N", help="50% more \\ less".replace("%", "%%"))
    assert manual.pages(parser)["p-run.1"].splitlines()[:11] == [
        f'.TH "P\\-RUN" 1 "" "cotenant {__version__}" "Cotenant"',
        ".SH NAME",
        r"p\-run \- do \fBit\fR \[u2026]",
        ".SH SYNOPSIS",
        ".B p run [FLAGS]",
        ".SH DESCRIPTION",
        r"\&.so \(aqx\(aq",
        ".SH OPTIONS",
        ".TP",
        r"\fB\-k, \-\-kind N\fR",
        r"50% more \(rs less",
    ]


def test_every_exit_code_of_the_program_is_in_the_manual() -> None:
    codes = {str(value) for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert {one.form for one in manual.EXIT_CODES} == codes | {"0"}


def test_every_verb_has_a_page() -> None:
    assert {"cotenant.1", "cotenant-why.1", "cotenant-submit.1", "cotenant-drain.1", "cotenant-local.1"} <= PAGES.keys()


@pytest.mark.parametrize("text", PAGES.values(), ids=list(PAGES))
def test_no_line_but_a_macro_begins_as_one_and_all_is_ascii(text: str) -> None:
    macros = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert (macros - {".TH", ".SH", ".TP", ".PP", ".B", ".nf", ".fi"}, text.isascii()) == (set(), True)


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
@pytest.mark.parametrize("name", ["cotenant.1", "cotenant-whatif.1", "cotenant-local.1", "cotenant-operator.1"])
def test_roff_reads_it_without_a_complaint(name: str) -> None:
    command = ["groff", "-man", "-Tutf8", "-ww", "-P-cbou"]
    done = subprocess.run(command, input=PAGES[name], capture_output=True, text=True, check=True, timeout=30)
    assert ("SYNOPSIS" in done.stdout, "EXIT STATUS" in done.stdout, done.stderr) == (True, True, "")
