"""docs/commands.md is what the parser says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.cli.main import build_parser
from cotenant.cli.reference import page
from cotenant.cli.reference.commands import command

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"


def test_the_page_in_the_docs_is_the_generated_one() -> None:
    assert PAGE.read_text() == page.markdown(), "run `make crds`"


def test_every_command_has_a_section_and_every_flag_is_on_the_page() -> None:
    text, program = page.markdown(), command(build_parser())
    commands = [one for verb in program.below for one in verb.whole()]
    assert [one.name for one in commands if f"# {one.name}\n" not in text] == []
    assert [flag.form for one in commands for flag in one.flags if f"- `{flag.form}`" not in text] == []


def test_the_page_is_the_same_whatever_is_set_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = page.markdown()
    for name, value in {"COLUMNS": "40", "KUBECONFIG": "/x", "HOME": "/y", "COTENANT_WORKER_IMAGE": "z"}.items():
        monkeypatch.setenv(name, value)
    assert page.markdown() == before


@pytest.mark.parametrize(
    ("text", "plain"), [("a * b", r"a \* b"), ("`a * b` <c>", r"`a * b` \<c\>"), ("one\n two", "one two")]
)
def test_what_is_no_code_is_no_markdown(text: str, plain: str) -> None:
    assert page._plain(text) == plain
