"""Every command line of `cotenant` that the documentation shows is one that the program reads."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.cli.main import PLUGIN, build_parser
from cotenant.cli.reference.commands import Command, command

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.name != "commands.md"]
"""Of what is generated from the parser nothing has to be held against it."""
PLACEHOLDER = re.compile(r"^\[?[A-Z][A-Z-]+\]?$|…")
SHELLS = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(?<!`)`((?:kubectl )?cotenant [^`\n]+)`(?!`)")


def shown() -> Iterator[tuple[str, str]]:
    """(page, command) of the blocks of shells."""
    for page in (*PAGES, DOCS.parent / "README.md"):
        for block in SHELLS.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                for found in re.findall(r"(?:^|\||\$ |<\(|&& |\.venv/bin/)\s*((?:kubectl )?cotenant [^|)]*)", line):
                    yield page.name, found


def mentioned() -> Iterator[tuple[str, str]]:
    """(page, command) of what stands in backticks in a sentence."""
    for page in (*PAGES, *(DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))):
        for found in SPAN.findall(re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)):
            yield page.name, found


def words_of(line: str) -> tuple[argparse.ArgumentParser, list[str]]:
    """The parser for the command, and its words, without the shell's own and without placeholders."""
    words = shlex.split(re.sub(r"\[[^]]*\]", "", line), comments=True)
    end = next((at for at, word in enumerate(words) if word in (">", "&&", "||", "&", ";")), len(words))
    words = [word.rstrip(";") for word in words[:end] if word != "…"]
    return (build_parser(PLUGIN), words[2:]) if words[0] == "kubectl" else (build_parser(), words[1:])


def unknown(line: str) -> list[str]:
    """Verbs and flags of an incomplete command line that the program does not have."""
    parser, words = words_of(line)
    at: Command = command(parser)
    for number, word in enumerate(words):
        if word == "--":
            break
        below = {one.words[-1]: one for one in at.below}
        if word.startswith("-"):
            flags = {form for flag in at.flags for form in re.findall(r"(?<!\S)--?[\w-]+", flag.form)}
            if word.partition("=")[0] not in flags | {"--help", "--version"}:
                return [word]
        elif word in below:
            at = below[word]
        elif not number and not all(
            PLACEHOLDER.search(one) or one in {verb.words[-1] for verb in at.below} for one in re.split(r"[|/,]", word)
        ):
            return [word]
    return []


@pytest.mark.parametrize(("page", "line"), [*dict.fromkeys(shown())])
def test_what_a_page_shows_is_a_command(page: str, line: str) -> None:
    parser, words = words_of(line)
    if words and not PLACEHOLDER.search(words[0]) and words[0] != "operator":
        parser.parse_args(words)


@pytest.mark.parametrize(("page", "line"), [*dict.fromkeys(mentioned())])
def test_what_a_sentence_mentions_is_a_verb_with_flags_that_it_has(page: str, line: str) -> None:
    assert unknown(line) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("kubectl cotenant why", []),
        ("cotenant logs digits -f --rank 3", []),
        ("kubectl cotenant hold queue NAME --reason TEXT", []),
        ("cotenant wy", ["wy"]),
        ("kubectl cotenant local up", ["local"]),
        ("cotenant why digits --ranks", ["--ranks"]),
        ("cotenant local up --gpu 2", ["--gpu"]),
    ],
)
def test_a_word_that_the_program_does_not_know_is_found(line: str, found: list[str]) -> None:
    assert unknown(line) == found


@pytest.mark.parametrize("page", ["tenants.md", "administrators.md"])
def test_a_question_is_answered_by_a_whole_command(page: str) -> None:
    _, _, section = (DOCS / page).read_text().partition("## Ten questions\n")
    rows = [line.split(" | ")[1] for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    answers = [SPAN.findall(cell) for cell in rows[1:]]
    for line in [line for found in answers for line in found]:
        parser, words = words_of(line)
        assert parser.parse_args(words).run
    assert (len(answers), all(answers)) == (10, True)


def test_the_pages_show_the_verbs_of_administrators() -> None:
    verbs = {line.split()[2] for page, line in shown() if line.startswith("kubectl cotenant")}
    assert {"audit", "doctor", "drain", "gpus", "hold", "nodes", "queues", "release", "top", "whatif"} <= verbs
