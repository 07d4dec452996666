"""Documents that must be taken and documents that must be refused, by the parser and by the real API server alike.

A document of `bad/` has in its comment the field that every refusal has to name (`server:` where the API server stops
at an earlier step and says it in words of its own), every sentence of the parser (`says:`), and what the API server
answers by itself (`answered:`, where that is none of these sentences). Where it answers nothing, its words are a form
that `docs/troubleshooting.md` explains.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from cotenant.api.conversion.decode import check
from cotenant.api.conversion.yaml_text import read_documents
from cotenant.api.validation.problems import DocumentError

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "troubleshooting.md"


@dataclass(frozen=True)
class Entry:
    id: str
    text: str
    refused: str | None
    """The field that the refusal names; None: the document is good."""
    says: tuple[str, ...] = ()
    """The parser's sentences."""
    answered: str | None = None
    """The part of the API server's refusal that says what to write."""


def corpus(folder: str) -> list[Entry]:
    entries = []
    for file in sorted((HERE / folder).glob("*.yaml")):
        for text in re.split(r"(?m)^---\n", file.read_text()):
            said = re.search(r"(?m)^# (.*)", text)
            named = re.search(r"(?m)^# refused: (.*)", text)
            assert said is not None, f"{file}: a document without a comment"
            assert (named is not None) == (folder == "bad"), f"{file}: {said[1]}"
            says = tuple(re.findall(r"(?m)^# says: (.*)", text))
            answered = re.search(r"(?m)^# answered: (.*)", text)
            entry = Entry(f"{file.stem}: {said[1]}", text, named and named[1], says, answered and answered[1])
            entries.append(entry)
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
    assert (len(GOOD) >= 60, len(BAD) >= 500) == (True, True)
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


@pytest.mark.parametrize("entry", BAD, ids=lambda entry: entry.id)
def test_every_mistake_of_a_document_is_said_at_once_word_for_word(entry: Entry) -> None:
    assert tuple(parsed(entry.text)) == entry.says


def forms() -> list[tuple[str, str]]:
    """(words of the API server, `…` for any, what they mean) of the table in the page."""
    section = PAGE.read_text().split("## The API server refuses a document", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"(?m)^\| `(.*?)` \| (.*) \|$", section)
    return [(words.replace("\\|", "|"), meaning) for words, meaning in rows]


def test_every_form_of_the_api_server_has_an_answer_in_the_page() -> None:
    rows = forms()
    assert len(rows) >= 15
    assert [words for words, meaning in rows if not re.search("[Ww]rite|[Ll]eave|[Pp]ut|[Aa]sk|[Ff]ill", meaning)] == []
