"""Documents that must be taken and documents that must be refused, by the parser and by the real API server alike.

A document of `bad/` names in its comment the field that every refusal has to name (`server:` where the API server stops
at an earlier step and says it in words of its own).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cotenant.api.conversion.decode import check
from cotenant.api.conversion.yaml_text import read_documents
from cotenant.api.validation.errors import DocumentError

if TYPE_CHECKING:
    from tests.api.conftest import Server

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    id: str
    text: str
    refused: str | None
    """The field that the refusal names; None: the document is good."""


def corpus(folder: str) -> list[Entry]:
    entries = []
    for file in sorted((HERE / folder).glob("*.yaml")):
        for text in re.split(r"(?m)^---\n", file.read_text()):
            said = re.search(r"(?m)^# (.*)", text)
            named = re.search(r"(?m)^# refused: (.*)", text)
            assert said is not None, f"{file}: a document without a comment"
            assert (named is not None) == (folder == "bad"), f"{file}: {said[1]}"
            entries.append(Entry(f"{file.stem}: {said[1]}", text, named[1] if named else None))
    return entries


GOOD, BAD = corpus("good"), corpus("bad")
ALL = [*GOOD, *BAD]


def parsed(text: str) -> list[str]:
    """The parser's refusal, as lines; empty when it takes the document."""
    try:
        documents = list(read_documents(text))
    except DocumentError as error:
        return [str(problem) for problem in error.problems]
    assert len(documents) == 1
    checked = check(documents[0].body)
    assert checked.ours
    return [str(problem) for problem in checked.problems]


def names_field(refusal: str, field: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(field)}(?![\w\[]|\.\w)", refusal) is not None


def test_the_corpus_is_as_large_as_it_claims() -> None:
    assert (len(GOOD) >= 60, len(BAD) >= 120) == (True, True)
    assert len({entry.id for entry in ALL}) == len(ALL)


@pytest.mark.parametrize("entry", GOOD, ids=lambda entry: entry.id)
def test_the_parser_takes_what_is_good(entry: Entry) -> None:
    assert parsed(entry.text) == []


@pytest.mark.parametrize("entry", BAD, ids=lambda entry: entry.id)
def test_the_parser_refuses_what_is_bad_and_names_the_field(entry: Entry) -> None:
    problems = parsed(entry.text)
    assert problems
    assert entry.refused is not None
    assert any(names_field(problem, entry.refused) for problem in problems), problems


def kind_of(text: str) -> str:
    found = re.search(r'kind"?: "?(\w+)', text)
    assert found is not None
    return found[1]


@pytest.mark.cluster
@pytest.mark.parametrize("entry", GOOD, ids=lambda entry: entry.id)
def test_the_api_server_takes_what_is_good(entry: Entry, server: Server) -> None:
    answer = server.dry_run(entry.text, kind_of(entry.text))
    assert (answer.status, answer.message) == (201, "")


@pytest.mark.cluster
@pytest.mark.parametrize("entry", BAD, ids=lambda entry: entry.id)
def test_the_api_server_refuses_what_is_bad_and_names_the_field(entry: Entry, server: Server) -> None:
    answer = server.dry_run(entry.text, kind_of(entry.text))
    assert answer.status in {400, 422}, answer.body
    otherwise = re.search(r"(?m)^# server: (.*)", entry.text)
    assert names_field(answer.message, otherwise[1] if otherwise else str(entry.refused)), answer.message
