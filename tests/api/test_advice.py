"""What a refusal says to write is taken: the advice, as a person reads it off the message, is put into the document."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import yaml

from cotenant.api.conversion.decode import check
from cotenant.api.conversion.yaml_text import read_documents
from cotenant.api.validation.problems import DocumentError, Problem
from tests.api.test_corpus import BAD, Entry

ROUNDS = 4
"""Some mistakes hide others: what a corrected kind is refused for is seen only then."""

WRITTEN = re.compile(r"write (?:for example |one of them, such as |one such as )?(`[^`]+`(?: and `[^`]+`)*)")


def readable(entry: Entry) -> bool:
    try:
        return bool(list(read_documents(entry.text)))
    except DocumentError:
        return False


def steps(path: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", path)]


def put(document: Any, path: str, value: Any) -> None:
    *above, last = steps(path)
    for here, after in zip(above, steps(path)[1:], strict=True):
        if isinstance(here, str) and not isinstance(document.get(here), dict | list):
            document[here] = [] if isinstance(after, int) else {}
        document = document[here]
    document[last] = value


def leave_out(document: Any, field: str) -> None:
    """Take a field away; a key with dots or brackets in it is the rest of its path."""
    for part in steps(field)[:-1]:
        rest = field[field.index(str(part)) :] if isinstance(part, str) else ""
        if isinstance(document, dict) and rest in document:
            del document[rest]
            return
        document = document[part]
        field = field.split(str(part), 1)[1].lstrip("].[")
    if isinstance(document, list):
        document.pop(int(field.strip("[].")))
    else:
        document.pop(field, None)


def obeyed(document: dict[str, Any], problem: Problem) -> bool:
    """True when the message says what to do, which is then done."""
    found = WRITTEN.search(problem.message)
    if found is None and "leave it out" not in problem.message:
        return False
    corrections = [text.partition(": ") for text in re.findall(r"`([^`]+)`", found[1])] if found else []
    values = {absolute(path, problem.field): yaml.safe_load(value) for path, _, value in corrections}
    if not any(f"{path}.".startswith(f"{problem.field}.") for path in values):
        # A variable that is not for the job to set is named by its name.
        leave_out(
            document, problem.field.removesuffix(".name") if "not for the job" in problem.message else problem.field
        )
    for path, value in values.items():
        put(document, path, value)
    return True


def absolute(path: str, field: str) -> str:
    return path if path.split(".", maxsplit=1)[0] in {"spec", "metadata", "kind", "apiVersion"} else f"{field}.{path}"


def corrected(entry: Entry) -> tuple[list[Problem], list[Problem]]:
    """(problems that are left when all advice was followed, those of them without advice)."""
    (document,) = [copy.deepcopy(one.body) for one in read_documents(entry.text)]
    problems: list[Problem] = []
    for _ in range(ROUNDS):
        problems = list(check(document).problems)
        followed = [obeyed(document, problem) for problem in problems]
        if not all(followed) or not problems:
            break
    problems = list(check(document).problems)
    return problems, [problem for problem in problems if WRITTEN.search(problem.message) is None]


BY_HAND = {
    "runtime: two things to run",
    "runtime: code from two places",
    "runtime: event files that would not fit into a store",
    "volumes: from two places",
    "environment: a value from two places",
}
"""Which of two things is to stay, only the writer knows."""
ADVISED = [
    entry
    for entry in BAD
    if readable(entry) and entry.says and entry.id not in BY_HAND and all(WRITTEN.search(line) for line in entry.says)
]


def test_most_refusals_say_what_to_write() -> None:
    assert len(ADVISED) >= 250


@pytest.mark.parametrize("entry", ADVISED, ids=lambda entry: entry.id)
def test_what_a_refusal_says_to_write_is_taken(entry: Entry) -> None:
    assert corrected(entry) == ([], [])
