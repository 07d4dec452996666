"""Documents that must be taken and documents that must be refused, by the parser and by the real API server alike.

A document of `bad/` has in its comment the field that every refusal has to name (`server:` where the API server stops
at an earlier step and says it in words of its own), every sentence of the parser (`says:`), and what the API server
answers by itself (`answered:`, where that is none of these sentences). Where it answers nothing, its words are a form
that `docs/troubleshooting.md` explains.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from cotenant import names
from cotenant.api.conversion.decode import KINDS

if TYPE_CHECKING:
    from tests.live.api.conftest import Server

from tests.api.test_corpus import BAD, GOOD, PAGE, Entry, forms, names_field

PATHS = set(KINDS)


def kind_of(text: str) -> str:
    """Kind whose address a document is sent to: its own, or the one that was probably meant."""
    found = re.search(r'kind"?: "?(\w+)', text)
    kind = found[1] if found else ""
    return kind if kind in PATHS else "Queue" if kind.endswith("Queue") else "TrainingJob"


@pytest.mark.cluster
@pytest.mark.parametrize("entry", GOOD, ids=lambda entry: entry.id)
def test_the_api_server_takes_what_is_good(entry: Entry, server: Server) -> None:
    old = f"apiVersion: {names.API_VERSIONS[1]}" in entry.text
    answer = server.dry_run(entry.text, kind_of(entry.text), names.API_VERSIONS[old])
    assert (answer.status, answer.message) == (201, "")


@pytest.mark.cluster
@pytest.mark.parametrize("entry", BAD, ids=lambda entry: entry.id)
def test_the_api_server_refuses_what_is_bad_and_names_the_field(entry: Entry, server: Server) -> None:
    answer = server.dry_run(entry.text, kind_of(entry.text))
    assert answer.status in {400, 422}, answer.body
    otherwise = re.search(r"(?m)^# server: (.*)", entry.text)
    assert names_field(answer.message, otherwise[1] if otherwise else str(entry.refused)), answer.message
    if entry.answered is not None:
        assert entry.answered in answer.message
    elif not any(sentence.partition(": ")[2] in answer.message for sentence in entry.says):
        assert explained(answer.message), f"no answer, and not in {PAGE.name}: {answer.message}"


def explained(message: str) -> bool:
    expressions = (".*".join(re.escape(part) for part in words.split("…")) for words, _ in forms())
    return any(re.search(expression, message, re.DOTALL) for expression in expressions)
