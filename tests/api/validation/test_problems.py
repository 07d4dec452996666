"""A refusal has all problems of a document, each with its field."""

from __future__ import annotations

from cotenant.api.validation.problems import DocumentError, Problem


def test_a_refusal_lists_all_problems_after_the_place() -> None:
    problems = [Problem("spec.a", "is required"), Problem("", "is empty")]
    assert str(DocumentError(problems, "Queue a")) == "Queue a: spec.a: is required; is empty"
    assert str(DocumentError(problems)) == "spec.a: is required; is empty"


def test_a_problem_of_the_text_names_its_line_and_is_plain() -> None:
    assert str(Problem("spec", "a tab", line=3)) == "line 3: a tab"
    assert "\x1b" not in str(Problem("spec.name", "\x1b[31m"))
