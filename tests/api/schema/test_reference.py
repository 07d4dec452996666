"""docs/api.md: every kind, every field, every variable that a job cannot set."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.api.resources.job_spec import reserved_env
from cotenant.api.schema import kinds, reference

ROOT = Path(__file__).parents[3]


def test_the_page_in_the_docs_is_the_generated_one() -> None:
    assert (ROOT / "docs" / "api.md").read_text() == reference.markdown(), "run `make crds`"


@pytest.mark.parametrize("kind", [resource.kind for resource in kinds.RESOURCES])
def test_every_kind_has_its_status_on_the_page(kind: str) -> None:
    assert f"### {kind} status" in reference.markdown()


def test_every_reason_why_a_variable_is_denied_is_on_the_page() -> None:
    page = reference.markdown()
    assert [row.why for row in reserved_env.DENIED if row.why not in page] == []


@pytest.mark.parametrize(
    ("expression", "want"),
    [("A|B", ["A", "B"]), ("A|B_(C|D)", ["A", "B_C", "B_D"]), ("A_.*", ["A_.*"])],
)
def test_an_expression_of_names_is_taken_apart(expression: str, want: list[str]) -> None:
    assert list(reference._alternatives(expression)) == want
